# Compile options that every target of the project shares.
add_library(lacuna_compile_options INTERFACE)
# nvcc hands its own lines to the C++ compiler, which -Wpedantic would complain about.
target_compile_options(lacuna_compile_options INTERFACE
  "$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
if(LACUNA_DEVELOPER AND NOT CMAKE_BUILD_TYPE STREQUAL Release)
  # At -O3 g++ 12 warns about overlapping copies of strings (GCC bug 105651).
  target_compile_options(lacuna_compile_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Werror> "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>")
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # clang checks the annotations of base/mutex.h; violations are errors.
  target_compile_options(lacuna_compile_options INTERFACE -Wthread-safety -Werror=thread-safety)
endif()
if(LACUNA_SANITIZE)
  # UBSan does not instrument test code, whose compile time it would nearly double.
  define_property(TARGET PROPERTY LACUNA_TEST_CODE INITIALIZE_FROM_VARIABLE LACUNA_TEST_CODE)
  string(REGEX REPLACE "(,undefined|undefined,)" "" sanitize_tests ${LACUNA_SANITIZE})
  string(REPLACE "," "$<COMMA>" sanitize ${LACUNA_SANITIZE})
  string(REPLACE "," "$<COMMA>" sanitize_tests ${sanitize_tests})
  target_compile_options(lacuna_compile_options INTERFACE
    -fsanitize=$<IF:$<BOOL:$<TARGET_PROPERTY:LACUNA_TEST_CODE>>,${sanitize_tests},${sanitize}>
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lacuna_compile_options INTERFACE -fsanitize=${LACUNA_SANITIZE})
  option(LACUNA_SANITIZE_ACCESSES "UBSan checks the pointer of every access, too, which doubles the time to compile" ON)
  if(NOT LACUNA_SANITIZE_ACCESSES)
    foreach(check alignment nonnull-attribute null object-size pointer-overflow returns-nonnull-attribute vptr)
      target_compile_options(lacuna_compile_options INTERFACE -fno-sanitize=${check})
    endforeach()
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND LACUNA_SANITIZE MATCHES undefined)
    # clang 14 fails on coroutines with it: "Cannot represent a difference across sections".
    target_compile_options(lacuna_compile_options INTERFACE -fno-sanitize=function)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Sanitizers hide from g++ what it needs to see that a value is set; <regex> alone trips it.
    target_compile_options(lacuna_compile_options INTERFACE -Wno-maybe-uninitialized)
    if(LACUNA_SANITIZE MATCHES thread)
      # Boost.Asio has fences of its own, which the sanitizer does not follow.
      target_compile_options(lacuna_compile_options INTERFACE -Wno-tsan)
    endif()
  endif()
endif()

# lacuna_module(<name> [USES <module>...] [LIBRARIES <target>...] [EXCLUDE <pattern of files that have a target of their own>])
#
# A static library from src/<name>/**.cpp; called in lab/CMakeLists.txt, from lab/<name>/**.cpp. Its headers are included as "<name>/file.h", and only by modules
# that name it under USES: each module's include root is a folder that holds one link, to that module alone, and
# a file that includes a module which only its neighbours name is refused here.
function(lacuna_module name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "USES;LIBRARIES" ${ARGN})
  set(folder ${lacuna_SOURCE_DIR}/src/${name})
  if(CMAKE_CURRENT_SOURCE_DIR STREQUAL "${lacuna_SOURCE_DIR}/lab")
    set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${folder}/*.h)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX ${ARG_EXCLUDE})
    list(FILTER headers EXCLUDE REGEX ${ARG_EXCLUDE})
  endif()
  foreach(file IN LISTS sources headers)
    file(STRINGS ${file} includes REGEX "^#include \"[a-z]+/")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "^#include \"([a-z]+)/.*" "\\1" module "${include}")
      if(NOT module STREQUAL name AND NOT module STREQUAL lacuna AND NOT module IN_LIST ARG_USES)
        message(FATAL_ERROR "${file} includes ${module}, which lacuna_module(${name} ...) does not name under USES")
      endif()
    endforeach()
  endforeach()
  set(include_root ${lacuna_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${include_root})
  file(CREATE_LINK ${folder} ${include_root}/${name} SYMBOLIC)
  if(sources)
    add_library(lacuna_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(lacuna_${name} PRIVATE lacuna_compile_options lacuna_hardening)
  else()
    add_library(lacuna_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(lacuna_${name} ${scope} ${include_root})
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(lacuna_${name} ${scope} lacuna_${used})
  endforeach()
  target_link_libraries(lacuna_${name} ${scope} ${ARG_LIBRARIES})
  set_target_properties(lacuna_${name} PROPERTIES LACUNA_LIBRARIES "${ARG_LIBRARIES}")
endfunction()

# Lets a target's files include "lacuna/file.h".
function(lacuna_public_headers target)
  target_include_directories(${target} PUBLIC ${lacuna_SOURCE_DIR}/include ${lacuna_BINARY_DIR}/include/public)
endfunction()

# lacuna_library(<component> <file name> MODULES <module>...)
#
# Libraries that other projects link: lacuna::<component>, lib<file name>.a or .so, from the objects of the modules. Its headers are
# those of include/lacuna/ alone; the libraries that the modules need stay its own.
function(lacuna_library component file)
  cmake_parse_arguments(ARG "" "" "MODULES" ${ARGN})
  set(objects)
  set(libraries)
  foreach(module IN LISTS ARG_MODULES)
    list(APPEND objects $<TARGET_OBJECTS:lacuna_${module}>)
    get_target_property(used lacuna_${module} LACUNA_LIBRARIES)
    if(used)
      list(APPEND libraries ${used})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES libraries)
  list(REMOVE_ITEM libraries Boost::headers)  # the objects are compiled; who links them needs no headers
  set(target lacuna_library_${component})
  add_library(${target} ${objects})
  add_library(lacuna::${component} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component} OUTPUT_NAME ${file} LINKER_LANGUAGE CXX
    VERSION ${lacuna_VERSION} SOVERSION ${lacuna_VERSION_MAJOR}.${lacuna_VERSION_MINOR})
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${lacuna_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${lacuna_BINARY_DIR}/include/public> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE ${libraries})
  lacuna_harden(${target})
  if(LACUNA_SANITIZE)
    target_link_options(${target} PRIVATE -fsanitize=${LACUNA_SANITIZE})
  endif()
  if(NOT BUILD_SHARED_LIBS)
    target_compile_definitions(${target} INTERFACE LACUNA_STATIC)
  endif()
endfunction()

# Passes on CUDA devices, or on the simulator of CUDA threads, or the twin that says that there is neither. Sets `cuda_modules`.
macro(lacuna_cuda_modules)
  set(cuda_modules cuda)
  if(LACUNA_CUDA)
    list(APPEND cuda_modules cuda_device)
    set(LACUNA_SIMULATOR OFF)
  elseif(LACUNA_SIMULATOR)
    find_package(Boost 1.81 QUIET COMPONENTS context)
    if(Boost_CONTEXT_FOUND)
      list(APPEND cuda_modules cuda_simulated simt)
    else()
      message(FATAL_ERROR "Boost.Context is missing, which the simulator of CUDA threads and its tests need (libboost-context1.81-dev)")
    endif()
  endif()
  add_subdirectory(src/backend/cuda)
endmacro()

# Passes: over several machines with MPI, or with the twin that says that there is none.
function(lacuna_backend_module)
  set(left_out no_mpi)
  set(libraries)
  if(LACUNA_MPI)
    find_package(MPI REQUIRED COMPONENTS CXX)
    set(libraries MPI::MPI_CXX)
  else()
    set(left_out mpi)
  endif()
  lacuna_module(backend USES base kernels weights cache model EXCLUDE "/backend/cuda/|/shard/${left_out}\\.cpp$" LIBRARIES ${libraries})
  target_link_libraries(lacuna_backend PUBLIC lacuna_cuda)
  if(LACUNA_MPI)
    # The old C++ bindings of MPI's headers, which the linker would ask for.
    target_compile_definitions(lacuna_backend PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  endif()
endfunction()

# Downloads: with libcurl, or the twin that says that there is none.
function(lacuna_hub_module)
  file(GLOB left_out ${lacuna_SOURCE_DIR}/src/hub/*.cpp)
  list(FILTER left_out EXCLUDE REGEX "/(no_curl|hub_files|hub_access)\\.cpp$")
  set(libraries)
  if(LACUNA_CURL)
    find_package(CURL REQUIRED)
    find_package(OpenSSL REQUIRED)
    set(libraries CURL::libcurl OpenSSL::Crypto)
    set(left_out ${lacuna_SOURCE_DIR}/src/hub/no_curl.cpp)
  endif()
  lacuna_module(hub USES base LIBRARIES ${libraries})
  set_source_files_properties(${left_out} PROPERTIES HEADER_FILE_ONLY ON)
endfunction()

# The files of the server's page become a part of its library (server/page/page.h).
function(lacuna_embed_page)
  set(folder ${lacuna_SOURCE_DIR}/src/server/page)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js)
  set(output ${lacuna_BINARY_DIR}/page_files.cpp)
  set(script ${lacuna_SOURCE_DIR}/cmake/embed.cmake)
  add_custom_command(OUTPUT ${output} DEPENDS ${files} ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${output} -P ${script})
  target_sources(lacuna_server PRIVATE ${output})
  # Without a target of its own, the file, and with it all of the server, would wait for the libraries that the server is linked with.
  add_custom_target(lacuna_page_files DEPENDS ${output})
  add_dependencies(lacuna_server lacuna_page_files)
endfunction()

# Kernels: with the instruction sets of the processor that is compiled for, each of which has a folder.
function(lacuna_kernels_module)
  set(folders avx2 avx512_fma avx512 amx neon neon_i8mm)
  set(files x86 arm none)
  string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" processor)
  if(APPLE AND CMAKE_OSX_ARCHITECTURES)
    list(LENGTH CMAKE_OSX_ARCHITECTURES count)
    if(count GREATER 1)
      message(FATAL_ERROR "CMAKE_OSX_ARCHITECTURES=${CMAKE_OSX_ARCHITECTURES}: kernels are compiled for one architecture; "
                          "build one after the other, and join them with lipo")
    endif()
    set(processor ${CMAKE_OSX_ARCHITECTURES})
  endif()
  if(processor MATCHES "^(x86_64|amd64)$")
    list(REMOVE_ITEM folders avx2 avx512_fma avx512 amx)
    list(REMOVE_ITEM files x86)
  elseif(processor MATCHES "^(aarch64|arm64)$")
    list(REMOVE_ITEM folders neon neon_i8mm)
    list(REMOVE_ITEM files arm)
  else()
    list(REMOVE_ITEM files none)
    message(STATUS "${CMAKE_SYSTEM_PROCESSOR}: no kernels but scalar ones")
  endif()
  string(JOIN "|" folders ${folders})
  string(JOIN "|" files ${files})
  lacuna_module(kernels USES base EXCLUDE "/kernels/(${folders})/|/kernels/isas_(${files})\\.cpp$")
endfunction()

# Each instruction set is compiled for it; isas_x86.cpp and isas_arm.cpp alone ask the CPU.
function(lacuna_kernel_flags)
  set(avx2 -mavx2 -mfma -mf16c)
  set(avx512_fma ${avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # g++ 12 warns about its own AVX-512 header (GCC bug 105593).
    list(APPEND avx512_fma -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  set(avx512 ${avx512_fma} -mavx512bf16)
  set(amx ${avx512} -mavx512fp16 -mamx-tile -mamx-bf16 -mamx-int8)
  set(neon -march=armv8.2-a+dotprod+fp16)
  set(neon_i8mm -march=armv8.6-a+fp16)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Before it has assigned registers, g++ moves so many loads to the front of a loop that accumulators leave theirs.
    list(APPEND neon -fno-schedule-insns)
    list(APPEND neon_i8mm -fno-schedule-insns)
  endif()
  # g++ unrolls the tiles, and so keeps their sums in registers, from -O3 on only: 5 times as fast. Under a sanitizer that takes
  # minutes to compile.
  set(optimise "")
  if(NOT LACUNA_SANITIZE)
    set(optimise $<$<NOT:$<CONFIG:Debug>>:-O3>)
  endif()
  foreach(isa scalar avx2 avx512_fma avx512 amx neon neon_i8mm)
    file(GLOB sources CONFIGURE_DEPENDS ${lacuna_SOURCE_DIR}/src/kernels/${isa}/*.cpp)
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${${isa}};${optimise}")
  endforeach()
  # The code that fills a table must run on any CPU.
  foreach(isa avx512 amx)
    set_source_files_properties(${lacuna_SOURCE_DIR}/src/kernels/${isa}/table.cpp PROPERTIES COMPILE_OPTIONS "")
  endforeach()
endfunction()

# Libraries with their headers, for find_package(lacuna) and pkg-config.
function(lacuna_install)
  include(CMakePackageConfigHelpers)
  set(components core)
  if(LACUNA_BUILD_SERVER)
    list(APPEND components server)
  endif()
  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/lacuna)
  set(runtime_core libraries)  # the component of each shared library
  set(runtime_server server)
  foreach(component IN LISTS components)
    install(TARGETS lacuna_library_${component} EXPORT lacuna_${component}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${runtime_${component}} NAMELINK_COMPONENT development)
    install(EXPORT lacuna_${component} FILE lacuna_${component}.cmake NAMESPACE lacuna::
      DESTINATION ${package_folder} COMPONENT development)
  endforeach()
  install(DIRECTORY ${lacuna_SOURCE_DIR}/include/lacuna ${lacuna_BINARY_DIR}/include/public/lacuna
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

  configure_package_config_file(${lacuna_SOURCE_DIR}/cmake/lacunaConfig.cmake.in
    ${lacuna_BINARY_DIR}/lacunaConfig.cmake INSTALL_DESTINATION ${package_folder})
  # 0.x: what a minor version adds may change what an earlier one promised.
  write_basic_package_version_file(${lacuna_BINARY_DIR}/lacunaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${lacuna_BINARY_DIR}/lacunaConfig.cmake ${lacuna_BINARY_DIR}/lacunaConfigVersion.cmake
    DESTINATION ${package_folder} COMPONENT development)

  # Paths relative to lacuna.pc, so that an installed tree can move.
  set(pc_folder ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH pc_prefix ${pc_folder} ${CMAKE_INSTALL_PREFIX})
  file(RELATIVE_PATH pc_libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
  file(RELATIVE_PATH pc_includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  set(pc_cflags)
  if(NOT BUILD_SHARED_LIBS)
    set(pc_cflags " -DLACUNA_STATIC")
  endif()
  set(pc_libs_private)
  if(LACUNA_SIMULATOR)
    set(pc_libs_private " -lboost_context")
  elseif(LACUNA_CUDA)
    set(pc_libs_private " -lcudart_static -ldl -lrt")
  endif()
  set(pc_names lacuna)
  if(LACUNA_BUILD_SERVER)
    list(APPEND pc_names lacuna-server)
    set(pc_server_requires lacuna)
    if(BUILD_SHARED_LIBS)
      set(pc_server_requires)  # it has its own copy of the engine
    endif()
  endif()
  foreach(name IN LISTS pc_names)
    configure_file(${lacuna_SOURCE_DIR}/cmake/${name}.pc.in ${lacuna_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${lacuna_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
  endforeach()
endfunction()
