# SPDX-License-Identifier: MIT
# i386 objects from the native compiler; Debian's gcc-12-multilib keeps its headers beside the 64-bit ones.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR i386)
set(CMAKE_CROSSCOMPILING OFF)
set(CMAKE_C_COMPILER gcc-12)
set(CMAKE_CXX_COMPILER g++-12)
set(CMAKE_C_FLAGS_INIT "-m32 -I/usr/include/x86_64-linux-gnu")
set(CMAKE_CXX_FLAGS_INIT "-m32 -I/usr/include/x86_64-linux-gnu")
