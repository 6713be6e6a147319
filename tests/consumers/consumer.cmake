# SPDX-License-Identifier: MIT
# The same two programs for every consumer: `header_only` links meganeura::meganeura, `compiled` links meganeura::runtime.
enable_testing()
foreach(mode IN ITEMS header_only compiled)
  add_executable(${mode} ../main.cpp ../other.cpp)
  target_link_libraries(${mode} PRIVATE $<IF:$<STREQUAL:${mode},compiled>,meganeura::runtime,meganeura::meganeura>)
  add_test(NAME ${mode} COMMAND ${mode})
  set_tests_properties(${mode} PROPERTIES PASS_REGULAR_EXPRESSION "^meganeura ${EXPECTED_VERSION} ${mode}\n$")
endforeach()
