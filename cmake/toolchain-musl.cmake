# SPDX-License-Identifier: MIT
# Objects for musl in place of glibc, by the compiler and C and C++ libraries that zig brings (PyPI: ziglang).
# -DLINEWRIGHT_MUSL=x86_64 (default), x86 or aarch64; -DLINEWRIGHT_ZIG=PROGRAM where python3 does not know the package.
set(LINEWRIGHT_MUSL x86_64 CACHE STRING "architecture to build for with musl, as zig names it")
if(NOT LINEWRIGHT_ZIG)
  execute_process(COMMAND python3 -c "import os, ziglang; print(os.path.dirname(ziglang.__file__) + '/zig', end='')"
    OUTPUT_VARIABLE LINEWRIGHT_ZIG COMMAND_ERROR_IS_FATAL ANY)
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LINEWRIGHT_MUSL LINEWRIGHT_ZIG)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${LINEWRIGHT_MUSL})
set(CMAKE_C_COMPILER ${LINEWRIGHT_ZIG} cc -target ${LINEWRIGHT_MUSL}-linux-musl)
set(CMAKE_CXX_COMPILER ${LINEWRIGHT_ZIG} c++ -target ${LINEWRIGHT_MUSL}-linux-musl)
# Archives by zig, too: an `ar` of the machine may be one that makes none (busybox's).
set(CMAKE_AR ${LINEWRIGHT_ZIG})
set(CMAKE_RANLIB ${LINEWRIGHT_ZIG})
foreach(language IN ITEMS C CXX)
  set(CMAKE_${language}_ARCHIVE_CREATE "<CMAKE_AR> ar qc <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_APPEND "<CMAKE_AR> ar q <TARGET> <LINK_FLAGS> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "<CMAKE_RANLIB> ranlib <TARGET>")
endforeach()
# Without optimisation zig would check for undefined behaviour, by a library that it does not link.
set(CMAKE_C_FLAGS_INIT -fno-sanitize=undefined)
set(CMAKE_CXX_FLAGS_INIT -fno-sanitize=undefined)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
