# How everything here is compiled, found and named. Included once, by the root.
option(GEARBOX_TESTS "Build the tests" ON)
option(GEARBOX_BENCH "Build the benchmarks" OFF)
option(GEARBOX_STOP_POINTS "Compile in the named stop points that tests kill processes at" OFF)
option(GEARBOX_FUZZ "Build the fuzzers, and everything for them; needs clang" OFF)
set(GEARBOX_SANITIZE "" CACHE STRING "Sanitizers for everything: 'address,undefined' or 'thread'")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_FLAGS_DEV "-O1 -g1")
set(CMAKE_CXX_FLAGS_DEV "-O1 -g1")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

include(GNUInstallDirs)
# The build tree has the shape of the installed one, so that the broker finds its plugins and helpers the same way in both.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(GEARBOX_PLUGIN_OUTPUT ${CMAKE_BINARY_DIR}/lib/gearbox/plugins)

find_program(GEARBOX_CCACHE ccache)
if(GEARBOX_CCACHE)
  # Paths relative to the source tree, so that one checkout profits from what another has compiled.
  set(launch ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${GEARBOX_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launch})
  set(CMAKE_C_COMPILER_LAUNCHER ${launch})
endif()
find_program(GEARBOX_MOLD mold)
if(GEARBOX_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_package(Threads REQUIRED)
find_package(Boost 1.81 EXACT REQUIRED COMPONENTS filesystem)  # Boost.DLL needs Boost.Filesystem; the rest is headers
find_package(PkgConfig REQUIRED)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
find_package(tomlplusplus REQUIRED)
find_package(spdlog REQUIRED)
find_package(SQLite3 REQUIRED)
pkg_check_modules(pq REQUIRED IMPORTED_TARGET libpq)
find_package(JPEG REQUIRED)
find_package(CLI11 REQUIRED)
find_path(GEARBOX_XXHASH_INCLUDE xxhash.h REQUIRED)

# Flags common to all targets of ours.
add_library(gearbox_flags INTERFACE)
target_compile_options(gearbox_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align -Woverloaded-virtual -Wconversion
  -Wno-sign-conversion -Wno-pedantic -fvisibility=hidden
  # g++ 12 sees the operator new of Asio's coroutine frames half inlined and takes new and delete for a mismatch.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>
  # g++ 12 at -O2 and above takes "literal" + std::string for an overlapping copy (GCC bug 105651).
  $<$<CONFIG:Release>:-Wno-restrict>)
target_compile_definitions(gearbox_flags INTERFACE
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED GEARBOX_VERSION="${PROJECT_VERSION}"
  $<$<BOOL:${GEARBOX_STOP_POINTS}>:GEARBOX_STOP_POINTS=1>)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_definitions(gearbox_flags INTERFACE _GLIBCXX_ASSERTIONS)
endif()
if(GEARBOX_FUZZ)
  target_compile_options(gearbox_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(GEARBOX_SANITIZE)
  target_compile_options(gearbox_flags INTERFACE -fsanitize=${GEARBOX_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(gearbox_flags INTERFACE -fsanitize=${GEARBOX_SANITIZE})
  if(GEARBOX_SANITIZE MATCHES "thread")
    target_compile_options(gearbox_flags INTERFACE -Wno-tsan)  # Asio's handlers hold fences, which g++ 12 only warns about
  endif()
endif()

# Asio compiled once, here, instead of in every file that includes it (a third of the build time).
add_library(gearbox_asio STATIC ${CMAKE_SOURCE_DIR}/cmake/asio.cpp)
target_link_libraries(gearbox_asio PUBLIC gearbox_flags Boost::headers Threads::Threads)

# One folder, one target. Usage: gearbox_room(NAME SOURCES a.cpp b.cpp LINK other targets)
function(gearbox_room name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/core/include ${CMAKE_SOURCE_DIR}/core/src)
  target_link_libraries(${name} PUBLIC gearbox_flags ${arg_LINK})
endfunction()

# One strategy, one .so, and an object library of the same code for those that link it in.
# Usage: gearbox_plugin(NAME SOURCES x.cpp LINK targets)   → targets NAME_objects and NAME (the .so, NAME.so)
function(gearbox_plugin name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name}_objects OBJECT ${arg_SOURCES})
  target_include_directories(${name}_objects PUBLIC ${CMAKE_SOURCE_DIR}/core/include ${CMAKE_SOURCE_DIR}/plugins)
  target_link_libraries(${name}_objects PUBLIC gearbox_flags ${arg_LINK})
  add_library(${name} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/${name}_plugin.cpp)
  target_compile_options(${name}_objects PUBLIC $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_link_libraries(${name} PRIVATE ${name}_objects)
  set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${GEARBOX_PLUGIN_OUTPUT})
  # Never STB_GNU_UNIQUE symbols: glibc would not unload the library again.
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
  if(NOT GEARBOX_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/gearbox/plugins)
endfunction()
