# SPDX-License-Identifier: MIT
# What the consumers share.
enable_testing()

# The program NAME of main.cpp, which is compiled in MODE, and of other.cpp, given as a source or as a library.
function(add_consumer name mode other)
  add_executable(${name} ../main.cpp)
  if(TARGET ${other})
    target_link_libraries(${name} PRIVATE ${other})
  else()
    target_sources(${name} PRIVATE ${other})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES PASS_REGULAR_EXPRESSION "^meganeura ${EXPECTED_VERSION} ${mode}\n$")
endfunction()
