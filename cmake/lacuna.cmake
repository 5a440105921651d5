# Compile options that every target of the project shares.
add_library(lacuna_options INTERFACE)
target_compile_options(lacuna_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow)
if(LACUNA_DEVELOPER)
  target_compile_options(lacuna_options INTERFACE -Werror)
endif()
if(LACUNA_SANITIZE)
  target_compile_options(lacuna_options INTERFACE -fsanitize=${LACUNA_SANITIZE} -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=all)
  target_link_options(lacuna_options INTERFACE -fsanitize=${LACUNA_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Sanitizers hide from g++ what it needs to see that a value is set; <regex> alone trips it.
    target_compile_options(lacuna_options INTERFACE -Wno-maybe-uninitialized)
    if(LACUNA_SANITIZE MATCHES thread)
      # Boost.Asio has fences of its own, which the sanitizer does not follow.
      target_compile_options(lacuna_options INTERFACE -Wno-tsan)
    endif()
  endif()
endif()

# lacuna_module(<name> [USES <module>...] [LIBRARIES <target>...])
#
# A static library from src/<name>/**.cpp. Its headers are included as "<name>/file.h", and only by modules
# that name it under USES (directly or through another module): each module's include root is a folder that
# holds one link, to that module alone.
function(lacuna_module name)
  cmake_parse_arguments(ARG "" "" "USES;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  set(include_root ${CMAKE_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${include_root})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${name} ${include_root}/${name} SYMBOLIC)
  if(sources)
    add_library(lacuna_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(lacuna_${name} PRIVATE lacuna_options)
  else()
    add_library(lacuna_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(lacuna_${name} ${scope} ${include_root})
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(lacuna_${name} ${scope} lacuna_${used})
  endforeach()
  target_link_libraries(lacuna_${name} ${scope} ${ARG_LIBRARIES})
endfunction()

# Downloads: with libcurl, or the twin that says that there is none.
function(lacuna_hub_module)
  file(GLOB left_out ${CMAKE_SOURCE_DIR}/src/hub/*.cpp)
  list(FILTER left_out EXCLUDE REGEX "/(no_curl|hub_files)\\.cpp$")
  set(libraries)
  if(LACUNA_CURL)
    find_package(CURL REQUIRED)
    find_package(OpenSSL REQUIRED)
    set(libraries CURL::libcurl OpenSSL::Crypto)
    set(left_out ${CMAKE_SOURCE_DIR}/src/hub/no_curl.cpp)
  endif()
  lacuna_module(hub USES base LIBRARIES ${libraries})
  set_source_files_properties(${left_out} PROPERTIES HEADER_FILE_ONLY ON)
endfunction()

# The files of the server's page become a part of its library (server/page/page.h).
function(lacuna_embed_page)
  set(folder ${CMAKE_SOURCE_DIR}/src/server/page)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js)
  set(output ${CMAKE_BINARY_DIR}/page_files.cpp)
  set(script ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
  add_custom_command(OUTPUT ${output} DEPENDS ${files} ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${output} -P ${script})
  target_sources(lacuna_server PRIVATE ${output})
endfunction()

# Each instruction set lives in its own folder and is compiled for it; dispatch.cpp alone asks the CPU.
function(lacuna_kernel_flags)
  set(avx2 -mavx2 -mfma -mf16c)
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mavx512vnni)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # g++ 12 warns about its own AVX-512 header (GCC bug 105593).
    list(APPEND avx512 -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  set(amx ${avx512} -mavx512fp16 -mamx-tile -mamx-bf16 -mamx-int8)
  # g++ unrolls the tiles, and so keeps their sums in registers, from -O3 on only: 5 times as fast.
  set(optimise $<$<NOT:$<CONFIG:Debug>>:-O3>)
  foreach(isa scalar avx2 avx512 amx)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/${isa}/*.cpp)
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${${isa}};${optimise}")
  endforeach()
  # What asks for AMX must run anywhere.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/amx/table.cpp PROPERTIES COMPILE_OPTIONS "")
endfunction()
