# Cross-compiles for 64-bit ARM with Debian's g++-aarch64-linux-gnu. Libraries are those that scripts/aarch64 unpacks into
# build/aarch64-libraries; programs run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

get_filename_component(libraries ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-libraries ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH ${libraries} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Python's headers include others by their path below it. scikit-build-core would name those of this machine.
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${libraries}/usr/include)
set(Python_INCLUDE_DIR ${libraries}/usr/include/python3.11)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${libraries})
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/usr/lib/aarch64-linux-gnu/pkgconfig:${libraries}/usr/share/pkgconfig)
# Libraries that libraries need.
set(CMAKE_EXE_LINKER_FLAGS_INIT -Wl,-rpath-link,${libraries}/usr/lib/aarch64-linux-gnu:${libraries}/lib/aarch64-linux-gnu)
set(CMAKE_SHARED_LINKER_FLAGS_INIT ${CMAKE_EXE_LINKER_FLAGS_INIT})

# QEMU_CPU=neoverse-n1 chooses a processor.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${libraries})

# Debian packages: their architecture, where dpkg-shlibdeps finds the libraries, and tools/sbom.py the records of them.
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${libraries}/usr/lib/aarch64-linux-gnu ${libraries}/lib/aarch64-linux-gnu)
set(LACUNA_SBOM_ROOT ${libraries})
