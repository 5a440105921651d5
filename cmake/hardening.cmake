# Options that make memory errors end the program, and exploits of them harder: for our libraries and programs, not for those
# that link them, nor for tests. Debug builds lack _FORTIFY_SOURCE, which needs an optimizer, and sanitizers check more.
add_library(lacuna_hardening INTERFACE)
set(lacuna_hardening_link_options)
if(LACUNA_HARDENING AND NOT LACUNA_SANITIZE)
  set(fortify 2)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
    set(fortify 3)  # also sizes that are known when the program runs
  endif()
  target_compile_options(lacuna_hardening INTERFACE -fstack-protector-strong
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=${fortify}>)
  target_compile_definitions(lacuna_hardening INTERFACE _GLIBCXX_ASSERTIONS)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-fcf-protection LACUNA_HAS_CF_PROTECTION)
  if(LACUNA_HAS_CF_PROTECTION)
    target_compile_options(lacuna_hardening INTERFACE -fcf-protection)
  endif()
  if(NOT CMAKE_POSITION_INDEPENDENT_CODE)
    target_compile_options(lacuna_hardening INTERFACE -fPIE)
  endif()
  if(NOT APPLE)  # whose linker does the like by itself
    set(lacuna_hardening_link_options -Wl,-z,relro,-z,now)
  endif()
endif()

# lacuna_harden(<target>): a program or a library that is linked.
function(lacuna_harden target)
  target_link_options(${target} PRIVATE ${lacuna_hardening_link_options})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    target_link_libraries(${target} PRIVATE lacuna_hardening)
    if(lacuna_hardening_link_options)
      target_link_options(${target} PRIVATE -pie)
    endif()
  endif()
endfunction()
