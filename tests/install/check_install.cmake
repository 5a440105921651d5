# cmake -DBUILD=build/dev -DSOURCES=. -DWORK=build/dev/install_test [-DFROM_SOURCES=ON] [-DHARDENED=ON] -P check_install.cmake
#
# Builds and runs the programs of examples/ against an installed copy, by CMake and by pkg-config, after the copy has
# moved; or, FROM_SOURCES, with the sources as a subdirectory.
cmake_minimum_required(VERSION 3.25)

set(examples ${SOURCES}/examples)
set(prompt "Mia has 12 shells. She finds 5 more. How many shells does Mia have?")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Runs a program that answers the prompt.
function(expect_answer)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT OUTPUT_VARIABLE answer COMMAND_ERROR_IS_FATAL ANY)
  if(NOT answer MATCHES "17")
    message(FATAL_ERROR "expected an answer with 17; found: ${answer}")
  endif()
endfunction()

function(run_examples folder models)
  set(ENV{LACUNA_MODELS} ${models})
  expect_answer(${folder}/answer mini-llada ${prompt})
  expect_answer(${folder}/answer_c mini-sdar "{\"prompt\": \"${prompt}\"}")
  expect_answer(${folder}/own_rule mini-dream ${prompt})
  run(${folder}/tools mini-llada)
  if(EXISTS ${folder}/serve)
    expect_answer(${SOURCES}/tests/install/check_server.sh ${folder}/serve mini-llada ${prompt})
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
if(FROM_SOURCES)
  run(${CMAKE_COMMAND} -S ${examples} -B ${WORK}/build -G Ninja -DLACUNA_SOURCES=${SOURCES} -DCMAKE_BUILD_TYPE=Release)
  run(${CMAKE_COMMAND} --build ${WORK}/build)
  run_examples(${WORK}/build ${SOURCES}/models)
  return()
endif()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/staged)
set(prefix ${WORK}/prefix)
file(RENAME ${WORK}/staged ${prefix})
set(models ${prefix}/share/lacuna/models)

run(${CMAKE_COMMAND} -S ${examples} -B ${WORK}/build -G Ninja -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run_examples(${WORK}/build ${models})

file(GLOB_RECURSE pc ${prefix}/lacuna.pc)
get_filename_component(pc_folder ${pc} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${pc_folder})
set(ENV{LD_LIBRARY_PATH} ${pc_folder}/..)  # of shared libraries
file(MAKE_DIRECTORY ${WORK}/by_pkg_config)

function(compile_by_pkg_config package program compiler)
  execute_process(COMMAND pkg-config --static --cflags --libs ${package} OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${compiler} ${ARGN} -o ${WORK}/by_pkg_config/${program} ${flags})
endfunction()
compile_by_pkg_config(lacuna answer c++ -std=c++20 ${examples}/answer.cpp)
compile_by_pkg_config(lacuna own_rule c++ -std=c++20 ${examples}/own_rule.cpp)
compile_by_pkg_config(lacuna tools c++ -std=c++20 ${examples}/tools.cpp)
compile_by_pkg_config(lacuna answer_c cc ${examples}/answer.c)
compile_by_pkg_config(lacuna-server serve c++ -std=c++20 ${examples}/serve.cpp)
run_examples(${WORK}/by_pkg_config ${models})
run(${prefix}/bin/lacuna --version)
if(HARDENED)
  file(GLOB shared ${prefix}/lib*/liblacuna*.so ${prefix}/lib*/*/liblacuna*.so)
  run(${SOURCES}/tests/install/check_hardening.sh c++ ${prefix}/bin/lacuna ${shared})
endif()
