# SPDX-License-Identifier: MIT
# Helpers shared by all rooms: warnings, sanitizers, and tests that know how to run under emulation.
find_package(Threads REQUIRED)

# The architecture built for, by the names of include/linewright/arch/select.h.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/arch.c "#include <linewright/arch/select.h>\nLW_ARCH_NAME\n")
separate_arguments(flags UNIX_COMMAND "${CMAKE_C_COMPILER_ARG1} ${CMAKE_C_FLAGS}")
execute_process(COMMAND ${CMAKE_C_COMPILER} ${flags} -E -P -I ${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_BINARY_DIR}/arch.c
  OUTPUT_VARIABLE LW_ARCH OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[^a-z0-9_]" "" LW_ARCH "${LW_ARCH}")
message(STATUS "Linewright: building for ${LW_ARCH}")

# Line tables are what a backtrace wants; describing every type of a C++ template costs a third of the compiler's time.
# C keeps it all: the stored interface of the library is compared by its types.
add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:RelWithDebInfo>>:-g1>)
if(LINEWRIGHT_ONCE)
  add_compile_options(-g0)
endif()

# Warnings of our own targets are errors where LINEWRIGHT_WERROR is set, and not looked for where everything is compiled once: pip
# shows none. Sanitizers reach every target of a preset alike.
function(lw_own_target target)
  if(NOT LINEWRIGHT_ONCE)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic)
  endif()
  if(LINEWRIGHT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(LW_ARCH STREQUAL "arm64")
    # Our own objects must hold the forms they name, never a helper call that picks another.
    target_compile_options(${target} PRIVATE -mno-outline-atomics)
  endif()
endfunction()

# lw_few_units(<target> [files that stay alone…]): files that time nothing are compiled five as one, so that what they include is
# parsed once, and an edit still compiles little again; where everything is compiled once, all as one.
function(lw_few_units target)
  set(files 5)
  if(LINEWRIGHT_ONCE)
    set(files 0)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# lw_seldom_run(<target>): what reads requests and prints answers. Where everything is compiled once, quick to compile is worth more
# than quick to run.
function(lw_seldom_run target)
  if(LINEWRIGHT_ONCE)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()
# lw_preloaded(<library> [<component> <folder>…]): a library for LD_PRELOAD, which every program meets that is started by another. `FOLDER/$PLATFORM/NAME` is
# the library for programs of this architecture, and an empty one for those of the other that runs beside it, whose dynamic linker would complain; musl's
# knows no such name and goes on without. On x86-64 glibc chooses among three names, elsewhere the name is the kernel's.
set(lw_platforms_x86_64 x86_64 haswell xeon_phi)
set(lw_platforms_i386 i686)
set(lw_platforms_arm64 aarch64)
set(lw_beside_x86_64 i386)
set(lw_beside_i386 x86_64)
set(lw_nothing ${CMAKE_CURRENT_LIST_DIR}/nothing.c)
function(lw_preloaded library)
  if(LINEWRIGHT_SANITIZE OR NOT LW_GLIBC)
    return()
  endif()
  set(other ${lw_beside_${LW_ARCH}})
  if(other AND NOT TARGET linewright_nothing)
    set(machine -m32)
    if(other STREQUAL "x86_64")
      set(machine -m64)
    endif()
    add_library(linewright_nothing MODULE ${lw_nothing})
    target_compile_options(linewright_nothing PRIVATE ${machine} -g0)
    target_link_options(linewright_nothing PRIVATE ${machine} -nostdlib)
  endif()
  get_target_property(name ${library} OUTPUT_NAME)
  if(NOT name)
    set(name ${library})
  endif()
  foreach(platform IN LISTS lw_platforms_${LW_ARCH} lw_platforms_${other})
    set(file $<TARGET_FILE:${library}>)
    if(platform IN_LIST lw_platforms_${other})
      set(file $<TARGET_FILE:linewright_nothing>)
      add_dependencies(${library} linewright_nothing)
    endif()
    set(folder $<TARGET_FILE_DIR:${library}>/${platform})
    add_custom_command(TARGET ${library} POST_BUILD COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${CMAKE_COMMAND} -E create_symlink ${file} ${folder}/lib${name}.so)
    set(installed ${ARGN})
    while(installed)
      list(POP_FRONT installed component destination)
      install(PROGRAMS ${file} DESTINATION ${destination}/${platform} COMPONENT ${component} RENAME lib${name}.so OPTIONAL)
    endwhile()
  endforeach()
endfunction()

if(LINEWRIGHT_SANITIZE)
  add_compile_options(-fsanitize=${LINEWRIGHT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(LINEWRIGHT_SANITIZE MATCHES address) # It ends these itself; asked twice, C++ takes a third longer to compile.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,object-size,vptr>)
  endif()
  add_link_options(-fsanitize=${LINEWRIGHT_SANITIZE})
endif()

# GoogleTest: the distribution's library where this build is for the distribution's own compiler and architecture;
# Debian's sources, built once, elsewhere, without sanitizers: what these watch is ours.
# Its header is parsed once for all tests of equal options. Tests of others, such as -fno-exceptions, take the text of the header, so the
# compiler is not asked to complain.
function(lw_add_googletest)
  if(NOT CMAKE_TOOLCHAIN_FILE)
    find_package(GTest QUIET)
  endif()
  if(GTest_FOUND)
    add_library(gtest ALIAS GTest::gtest)
    add_library(gtest_main ALIAS GTest::gtest_main)
  elseif(EXISTS /usr/src/googletest/CMakeLists.txt)
    set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
    set(gtest_disable_pthreads OFF CACHE BOOL "" FORCE)
    add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
    foreach(library IN ITEMS gtest gtest_main)
      target_compile_options(${library} PRIVATE -O0 -g0 -fno-sanitize=all)
    endforeach()
  else()
    message(FATAL_ERROR "GoogleTest sources are missing: apt install googletest")
  endif()
  file(CONFIGURE OUTPUT gtest_header.cpp CONTENT "")
  add_library(lw_gtest_header OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/gtest_header.cpp)
  target_precompile_headers(lw_gtest_header PRIVATE <gtest/gtest.h> <thread>)
  lw_test_options(lw_gtest_header)
  # As a program's files, not a library's.
  set_target_properties(lw_gtest_header PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(lw_gtest_header PRIVATE -fPIE)
endfunction()
set(CMAKE_PCH_WARN_INVALID OFF)

function(lw_test_options target)
  lw_own_target(${target})
  if(NOT LINEWRIGHT_SANITIZE) # sanitizers' presets choose their own
    target_compile_options(${target} PRIVATE -O1)
  endif()
  if(CMAKE_TOOLCHAIN_FILE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-g0>)
  endif()
  target_link_libraries(${target} PRIVATE linewright_headers gtest Threads::Threads)
endfunction()

# Tests of the areas with LW_TEST_LABELS have those labels: which lane of scripts/test.sh runs them follows from that.
# lw_test_command(NAME <test> COMMAND <program> [args…] [LABELS …] [TIMEOUT s] [LOCK name] [ONCE file…])
# Registers a program as a test: natively once; for arm64 twice, under -cpu max (LSE) and
# -cpu cortex-a57 (LL/SC only), so that no form goes untested and none is executed where it is missing.
# Of tests with one LOCK only one runs at a time. Where the outcome depends on nothing but the files ONCE, what has passed is not
# repeated while these stay the same (tests/once).
function(lw_test_command)
  cmake_parse_arguments(T "" "NAME;TIMEOUT;LOCK" "COMMAND;LABELS;ENVIRONMENT;ONCE" ${ARGN})
  if(T_ONCE)
    list(PREPEND T_COMMAND ${PROJECT_SOURCE_DIR}/tests/once ${CMAKE_CURRENT_BINARY_DIR}/${T_NAME}.passed ${T_ONCE} --)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 900)
  endif()
  set(runs "${T_NAME}")
  if(LW_ARCH STREQUAL "arm64" AND CMAKE_CROSSCOMPILING)
    set(runs "")
    foreach(cpu IN ITEMS max cortex-a57)
      set(emulate qemu-aarch64 -cpu ${cpu} -L /usr/aarch64-linux-gnu)
      if(LINEWRIGHT_SANITIZE MATCHES thread)
        list(PREPEND emulate setarch -R)
      endif()
      add_test(NAME ${T_NAME}.${cpu} COMMAND ${emulate} ${T_COMMAND})
      list(APPEND runs ${T_NAME}.${cpu})
    endforeach()
  else()
    add_test(NAME ${T_NAME} COMMAND ${T_COMMAND})
  endif()
  set_tests_properties(${runs} PROPERTIES TIMEOUT ${T_TIMEOUT})
  if(T_LOCK)
    set_tests_properties(${runs} PROPERTIES RESOURCE_LOCK ${T_LOCK})
  endif()
  if(T_LABELS OR LW_TEST_LABELS)
    set_tests_properties(${runs} PROPERTIES LABELS "${T_LABELS};${LW_TEST_LABELS}")
  endif()
  if(T_ENVIRONMENT)
    set_tests_properties(${runs} PROPERTIES ENVIRONMENT "${T_ENVIRONMENT}")
  endif()
endfunction()

# Programs of another's source, with other definitions or flags: cross builds and sanitizers build and run them in the long
# lane only. lw_variant(<target>…) names such targets; their tests have the label that ${LW_VARIANT} is there.
# Programs whose subject is the same code on every architecture are left to that lane by cross builds alone: lw_portable(), and the
# label ${LW_PORTABLE}.
set(LW_VARIANT "")
set(LW_PORTABLE "")
if(CMAKE_TOOLCHAIN_FILE)
  set(LW_PORTABLE variant)
endif()
if(CMAKE_TOOLCHAIN_FILE OR LINEWRIGHT_SANITIZE)
  set(LW_VARIANT variant)
endif()
function(lw_variant)
  if(LW_VARIANT)
    set_property(GLOBAL APPEND PROPERTY LW_VARIANTS ${ARGN})
  endif()
endfunction()

function(lw_portable)
  if(LW_PORTABLE)
    set_property(GLOBAL APPEND PROPERTY LW_VARIANTS ${ARGN})
  endif()
endfunction()

# lw_gtest(<name> [VARIANT] [PORTABLE] [INLINED] SOURCES … [LIBRARIES …] [LABELS …] [TIMEOUT s] [LOCK name]): one GoogleTest program, one ctest.
# What compilers make of our inline functions is the subject of INLINED ones; all others are compiled by -O1, which takes a quarter less.
function(lw_gtest name)
  cmake_parse_arguments(T "VARIANT;PORTABLE;INLINED" "TIMEOUT;LOCK" "SOURCES;LIBRARIES;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  set(plain_c ${T_SOURCES})
  list(FILTER plain_c INCLUDE REGEX "[.]c$")
  set_source_files_properties(${plain_c} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  list(FILTER T_SOURCES INCLUDE REGEX "[.]cpp$")
  list(LENGTH T_SOURCES files)
  if(files GREATER 1) # gtest.h is parsed once
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
  if(T_VARIANT)
    lw_variant(${name})
    list(APPEND T_LABELS ${LW_VARIANT})
  endif()
  if(T_PORTABLE)
    lw_portable(${name})
    list(APPEND T_LABELS ${LW_PORTABLE})
  endif()
  target_link_libraries(${name} PRIVATE ${T_LIBRARIES} gtest_main)
  lw_test_options(${name})
  if(T_INLINED AND NOT LINEWRIGHT_SANITIZE)
    target_compile_options(${name} PRIVATE -O2)
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU") # clang refuses a header of other options
    target_precompile_headers(${name} REUSE_FROM lw_gtest_header)
  endif()
  lw_test_command(NAME ${name} COMMAND $<TARGET_FILE:${name}> TIMEOUT ${T_TIMEOUT} LOCK ${T_LOCK}
    LABELS ${T_LABELS} ENVIRONMENT ${T_ENVIRONMENT})
endfunction()

# CLI11, fmt and nlohmann-json are used as headers alone, which serve every architecture; their CMake packages belong to
# the native one. `-idirafter` lets a cross compiler find them without seeing the native C library's headers first.
if(NOT LINEWRIGHT_PROGRAMS)
  return()
endif()
add_library(linewright_other_headers INTERFACE)
foreach(header IN ITEMS CLI/CLI.hpp fmt/format.h nlohmann/json.hpp)
  string(MAKE_C_IDENTIFIER "LW_DIR_OF_${header}" found)
  find_path(${found} ${header} PATHS /usr/include /usr/local/include NO_CMAKE_FIND_ROOT_PATH)
  if(NOT ${found})
    if(LINEWRIGHT_PROBE)
      message(FATAL_ERROR "${header} is missing: apt install libcli11-dev libfmt-dev nlohmann-json3-dev")
    endif()
  elseif(NOT ${found} STREQUAL "/usr/include" OR CMAKE_CROSSCOMPILING)
    target_compile_options(linewright_other_headers INTERFACE "SHELL:-idirafter ${${found}}")
  endif()
endforeach()
