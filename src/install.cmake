# SPDX-License-Identifier: MIT
# What `cmake --install` puts down: headers, both libraries, a CMake package and a pkg-config file. Everything is
# found from where it lies, so the tree can be moved.
include(CMakePackageConfigHelpers)

install(TARGETS linewright_headers linewright linewright_shared EXPORT linewright
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set_target_properties(linewright_headers PROPERTIES EXPORT_NAME headers)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/linewright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT library FILES_MATCHING PATTERN "*.h")

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/linewright)
install(EXPORT linewright NAMESPACE linewright:: FILE linewright-targets.cmake DESTINATION ${package} COMPONENT library)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/linewright-config.cmake.in [[
# linewright::headers (alone: with LW_NO_POLICY), linewright::linewright (static), linewright::shared
@PACKAGE_INIT@
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/linewright-targets.cmake)
check_required_components(linewright)
]])
configure_package_config_file(${CMAKE_CURRENT_BINARY_DIR}/linewright-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/linewright-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/linewright-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/linewright-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/linewright-config-version.cmake DESTINATION ${package} COMPONENT library)

# ${pcfiledir} is pkg-config's own: the folder this file lies in.
file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
file(CONFIGURE OUTPUT linewright.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: linewright
Description: Atomics, per-CPU data, read-side critical sections and cache maintenance in the form that is right on the machine
Version: @PROJECT_VERSION@
Libs: -L${libdir} -llinewright
Libs.private: -pthread
Cflags: -I${includedir}
]])
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/linewright.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
