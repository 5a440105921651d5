# Compiles for another system with Zig's clang and libc++, and with the headers of the C libraries that come with it. Libraries
# are headers alone, those that scripts/other_systems unpacks into build/other-systems: nothing is linked.
#
#   -DLACUNA_ZIG_TARGET=aarch64-macos, x86_64-macos, x86_64-freebsd or x86_64-linux-musl
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LACUNA_ZIG_TARGET)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
string(REGEX MATCH "^([^-]+)-([^-]+)" matched "${LACUNA_ZIG_TARGET}")
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
set(names_linux Linux)
set(names_macos Darwin)
set(names_freebsd FreeBSD)
set(CMAKE_SYSTEM_NAME ${names_${CMAKE_MATCH_2}})

get_filename_component(folder ${CMAKE_CURRENT_LIST_DIR}/../build/other-systems ABSOLUTE)
set(CMAKE_CXX_COMPILER ${folder}/c++ -target ${LACUNA_ZIG_TARGET})
foreach(tool AR RANLIB INSTALL_NAME_TOOL)
  set(CMAKE_${tool} true)
endforeach()
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${folder}/usr/include ${folder}/usr/include/x86_64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${folder})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${folder})
set(ENV{PKG_CONFIG_LIBDIR} ${folder}/usr/lib/x86_64-linux-gnu/pkgconfig:${folder}/usr/share/pkgconfig)
# The package of prometheus-cpp asks for headers of Linux' libdl and librt on behalf of a library that is not linked.
foreach(library DL RT)
  set(LIB${library}_LIBRARIES unused)
  set(LIB${library}_INCLUDE_DIRS ${folder}/usr/include)
endforeach()
