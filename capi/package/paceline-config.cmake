# find_package(paceline) defines the target paceline::paceline: the library and the
# folder of paceline.h and paceline.hpp.
cmake_policy(VERSION 3.8...3.16) # if(... IN_LIST ...), also in a project of older policies
if(NOT TARGET paceline::paceline)
  # The folder may be found through a link, such as /lib for /usr/lib.
  get_filename_component(_paceline_prefix "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
  get_filename_component(_paceline_prefix "${_paceline_prefix}/../../@UP@" ABSOLUTE)
  add_library(paceline::paceline SHARED IMPORTED)
  set_target_properties(paceline::paceline PROPERTIES
    IMPORTED_LOCATION "${_paceline_prefix}/@LIB@/libpaceline.so.@ABI@"
    IMPORTED_SONAME "libpaceline.so.@ABI@"
    INTERFACE_INCLUDE_DIRECTORIES "${_paceline_prefix}/include")
  get_property(_paceline_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if("CXX" IN_LIST _paceline_languages) # paceline.hpp
    set_target_properties(paceline::paceline PROPERTIES INTERFACE_COMPILE_FEATURES cxx_std_17)
  endif()
  unset(_paceline_languages)
  unset(_paceline_prefix)
endif()
