# SPDX-License-Identifier: MIT
# The compiled library, for the source tree and for every tree that finds the installed package.

# Adds the static library TARGET of the bodies (.ipp) that the target HEADERS names: one generated unit a folder. It is
# compiled with the flags of the calling directory, when something that is built links it.
function(meganeura_add_library target headers)
  get_target_property(include ${headers} HEADER_DIRS_bodies)
  get_target_property(bodies ${headers} HEADER_SET_bodies)
  set(folders "")
  foreach(body IN LISTS bodies)
    cmake_path(RELATIVE_PATH body BASE_DIRECTORY "${include}")
    cmake_path(GET body PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    list(APPEND folders ${folder})
    string(APPEND includes_of_${folder} "#include <${body}>\n")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  add_library(${target} STATIC EXCLUDE_FROM_ALL)
  foreach(folder IN LISTS folders)
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/${target}/${folder}.cpp")
    file(CONFIGURE OUTPUT "${unit}" CONTENT "${includes_of_${folder}}" @ONLY)
    target_sources(${target} PRIVATE "${unit}")
  endforeach()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)  # shared libraries may link it
  target_compile_definitions(${target} PUBLIC MEGANEURA_HEADER_ONLY=0)
  target_link_libraries(${target} PUBLIC ${headers})
endfunction()
