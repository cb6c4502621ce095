# find_package(paceline) defines the target paceline::paceline: the library and the
# folder of paceline.h and paceline.hpp.
if(NOT TARGET paceline::paceline)
  get_filename_component(_paceline_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  add_library(paceline::paceline SHARED IMPORTED)
  set_target_properties(paceline::paceline PROPERTIES
    IMPORTED_LOCATION "${_paceline_prefix}/lib/libpaceline.so.@ABI@"
    IMPORTED_SONAME "libpaceline.so.@ABI@"
    INTERFACE_INCLUDE_DIRECTORIES "${_paceline_prefix}/include")
  unset(_paceline_prefix)
endif()
