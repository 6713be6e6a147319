# SPDX-License-Identifier: MIT
# The same two programs for every consumer: `header_only` links meganeura::meganeura, `compiled` links meganeura::runtime.
# One unit has NDEBUG and the other has not: header-only, the one without decides for both.
enable_testing()
set_source_files_properties(../main.cpp PROPERTIES COMPILE_OPTIONS -DNDEBUG)
set_source_files_properties(../other.cpp PROPERTIES COMPILE_OPTIONS -UNDEBUG)
foreach(mode IN ITEMS header_only compiled)
  add_executable(${mode} ../main.cpp ../other.cpp)
  target_link_libraries(${mode} PRIVATE $<IF:$<STREQUAL:${mode},compiled>,meganeura::runtime,meganeura::meganeura>)
  add_test(NAME ${mode} COMMAND ${mode})
  set_tests_properties(${mode} PROPERTIES PASS_REGULAR_EXPRESSION "^meganeura ${EXPECTED_VERSION} ${mode}\n$")
endforeach()
