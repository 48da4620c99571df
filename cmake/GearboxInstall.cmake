# The installed tree: programs and plugins are installed where they are made; here is the SDK, component `sdk`:
#   include/gearbox/{base,plugin}/  include/gearbox/wire/tensor.hpp  lib/libgearbox_sdk.a  lib/cmake/gearbox/
# A plugin needs no more than that and the very Boost headers that the broker was built with.
include(CMakePackageConfigHelpers)

set(GEARBOX_SDK_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/gearbox)

# C++ objects cross between broker and plugin, so a plugin is compiled with what changes their layout (see GEARBOX_ABI_TAG).
set(GEARBOX_SDK_DEFINITIONS "")
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  set(GEARBOX_SDK_DEFINITIONS _GLIBCXX_ASSERTIONS)
endif()

foreach(folder base plugin)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/core/include/gearbox/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gearbox
    COMPONENT sdk FILES_MATCHING PATTERN "*.hpp")
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/core/include/gearbox/wire/tensor.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gearbox/wire
  COMPONENT sdk)
install(FILES $<TARGET_FILE:gearbox_base> DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libgearbox_sdk.a COMPONENT sdk)

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/gearboxConfig.cmake.in ${CMAKE_BINARY_DIR}/sdk/gearboxConfig.cmake
  INSTALL_DESTINATION ${GEARBOX_SDK_CMAKE} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/sdk/gearboxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/sdk/gearboxConfig.cmake ${CMAKE_BINARY_DIR}/sdk/gearboxConfigVersion.cmake
  ${CMAKE_SOURCE_DIR}/cmake/plugin.map DESTINATION ${GEARBOX_SDK_CMAKE} COMPONENT sdk)
