# SPDX-License-Identifier: MIT
# lw_system_test(NAME <test> COMMANDS "<[NAME=value …] program [argument …]>" … DEPENDS <targets> [TIMEOUT s] [KERNEL options])
# Static arm64 programs under a real arm64 kernel, with more options on its command line, in an emulated machine: one boot, every command,
# each exit code reported.
# Only in the arm64 build; label `system`; skipped (77) where qemu-system-aarch64 or the kernel is missing.
# lw_dax_test(NAME <test> COMMANDS …): the same for static x86-64 programs, with an ext4 in DAX mode at /dax; in the native
# x86-64 build only.
include_guard(GLOBAL)

function(lw_static_program name)
  add_executable(${name} ${ARGN})
  lw_own_target(${name})
  target_link_options(${name} PRIVATE -static)
endfunction()

function(lw_dax_test)
  cmake_parse_arguments(T "" "NAME" "COMMANDS" ${ARGN})
  if(NOT LW_ARCH STREQUAL "x86_64" OR LINEWRIGHT_SANITIZE)
    return()
  endif()
  if(NOT TARGET lw_system_init)
    lw_static_program(lw_system_init ${PROJECT_SOURCE_DIR}/tests/system/init.c)
  endif()
  if(NOT TARGET lw_dax_setup)
    lw_static_program(lw_dax_setup ${PROJECT_SOURCE_DIR}/tests/system/dax_setup.c)
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ${T_NAME} COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/system/run_dax.py
    --init $<TARGET_FILE:lw_system_init> --setup $<TARGET_FILE:lw_dax_setup> ${T_COMMANDS})
  set_tests_properties(${T_NAME} PROPERTIES LABELS system TIMEOUT 1200 SKIP_RETURN_CODE 77)
endfunction()

function(lw_system_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT;KERNEL" "COMMANDS;DEPENDS" ${ARGN})
  if(NOT LW_ARCH STREQUAL "arm64" OR LINEWRIGHT_SANITIZE)
    return()
  endif()
  if(NOT TARGET lw_system_init)
    lw_static_program(lw_system_init ${PROJECT_SOURCE_DIR}/tests/system/init.c)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 1800)
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ${T_NAME} COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/system/run_arm64.py
    --init $<TARGET_FILE:lw_system_init> --kernel "${T_KERNEL}" ${T_COMMANDS})
  set_tests_properties(${T_NAME} PROPERTIES LABELS system TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()
