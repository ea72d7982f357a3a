# SPDX-License-Identifier: Apache-2.0
# One way to declare a room and its tests.

find_package(Threads REQUIRED)
set(STALLTRACE_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them: address,undefined or thread")

# GCC 12 gives false warnings where it optimises fully: overlapping copies in std::string's operator+ (its bug 105651; with that
# header precompiled, also bounds of its small buffer), and members of a std::variant's other alternatives as uninitialised (an example: boostorg/variant2 issue 55).
add_library(stalltrace_flags INTERFACE)
target_compile_options(stalltrace_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-align
  $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual> -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers -Wno-restrict -Wimplicit-fallthrough -Werror
  $<$<CONFIG:Release>:-Wno-maybe-uninitialized>)
# Hardening. Bounds of the standard library's containers are checked in release builds too: the program reads what others wrote, as root.
target_compile_options(stalltrace_flags INTERFACE -fstack-protector-strong -fstack-clash-protection
  $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-fcf-protection> $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},aarch64>:-mbranch-protection=standard>
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
target_compile_definitions(stalltrace_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
if(NOT STALLTRACE_SANITIZE)  # the sanitizers replace the functions that it checks
  target_compile_definitions(stalltrace_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>)
endif()
target_link_options(stalltrace_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
target_include_directories(stalltrace_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/bpf)
if(STALLTRACE_SANITIZE)
  target_compile_options(stalltrace_flags INTERFACE -fsanitize=${STALLTRACE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(stalltrace_flags INTERFACE -fsanitize=${STALLTRACE_SANITIZE})
endif()

# Parsing headers is most of the compile time: those that nearly every file includes are precompiled, once for the libraries
# and once for the tests (which are compiled as position-independent executables). Files include what they use all the same:
# STALLTRACE_PRECOMPILE=OFF builds without, and so do the sanitizers' presets.
option(STALLTRACE_PRECOMPILE "Precompile common headers" ON)
if(STALLTRACE_PRECOMPILE)
  target_compile_options(stalltrace_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
    -fpch-preprocess>)  # for ccache
  set(STALLTRACE_PRECOMPILED_SOURCE ${CMAKE_CURRENT_LIST_DIR}/precompiled.cpp)
  add_library(stalltrace_headers STATIC EXCLUDE_FROM_ALL ${STALLTRACE_PRECOMPILED_SOURCE})
  target_link_libraries(stalltrace_headers PRIVATE stalltrace_flags)
  target_precompile_headers(stalltrace_headers PRIVATE <algorithm> <array> <atomic> <cstdint> <fmt/format.h> <functional>
    <map> <memory> <optional> <set> <span> <string> <string_view> <utility> <variant> <vector>)
endif()

# stalltrace_room(NAME [DEPENDS room ...] [SYSTEM static libraries ...] [ALONE folders ...]): every *.cpp in the caller's folder and
# below becomes the library stalltrace_NAME, except *_test.cpp and testing/*.cpp: these become the test program test_NAME.
# Files in the folders ALONE are compiled one by one: they have names of their own with the same spelling.
function(stalltrace_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;SYSTEM;ALONE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test\\.cpp|/testing/[^/]*\\.cpp)$")
  list(FILTER tests INCLUDE REGEX "(_test\\.cpp|/testing/[^/]*\\.cpp)$")
  add_library(stalltrace_${name} STATIC ${sources})
  stalltrace_unity(stalltrace_${name})
  foreach(folder IN LISTS ROOM_ALONE)
    cmake_path(ABSOLUTE_PATH folder NORMALIZE OUTPUT_VARIABLE folder)
    file(GLOB alone ${folder}/*.cpp)
    list(FILTER alone EXCLUDE REGEX "_test\\.cpp$")
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
  if(STALLTRACE_PRECOMPILE)
    target_precompile_headers(stalltrace_${name} REUSE_FROM stalltrace_headers)
  endif()
  list(TRANSFORM ROOM_DEPENDS PREPEND stalltrace_)
  target_link_libraries(stalltrace_${name} PUBLIC stalltrace_flags ${ROOM_DEPENDS} PRIVATE ${ROOM_SYSTEM} Threads::Threads)
  if(STALLTRACE_TESTS AND tests)
    stalltrace_test(test_${name} SOURCES ${tests} DEPENDS stalltrace_${name})
  endif()
endfunction()

# Tests are compiled without optimisation, which takes half as long. What they test is compiled as it is shipped, but for what
# its headers define.
add_library(stalltrace_test_flags INTERFACE)
target_compile_options(stalltrace_test_flags INTERFACE -O0 -U_FORTIFY_SOURCE)

# The files of one folder are compiled together: each alone would parse the same headers and emit the same templates and destructors,
# half of the compile time of libraries and more of tests. The names in the unnamed namespaces of a folder's files therefore differ.
# STALLTRACE_UNITY=OFF compiles each file alone, as do the sanitizers' presets: less to compile after a change.
option(STALLTRACE_UNITY "Compile the files of a folder together" ON)
function(stalltrace_unity target)
  if(STALLTRACE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    # Its warning is for headers, and takes a file that another one includes for one.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE folder)
      cmake_path(GET folder PARENT_PATH folder)
      cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
      string(MAKE_C_IDENTIFIER "${folder}" folder)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder})
    endforeach()
  endif()
endfunction()

# stalltrace_test(NAME SOURCES ... DEPENDS targets ... [LABELS ...]): a GoogleTest program, one ctest entry.
function(stalltrace_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  if(STALLTRACE_PRECOMPILE AND NOT TARGET stalltrace_test_headers)
    add_executable(stalltrace_test_headers EXCLUDE_FROM_ALL ${STALLTRACE_PRECOMPILED_SOURCE})
    target_link_libraries(stalltrace_test_headers PRIVATE stalltrace_flags stalltrace_test_flags GTest::gtest_main GTest::gmock Threads::Threads)
    target_precompile_headers(stalltrace_test_headers PRIVATE <algorithm> <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h> <map>
      <memory> <optional> <set> <span> <string> <string_view> <utility> <variant> <vector>)
  endif()
  if(NOT TARGET stalltrace_test_support)
    add_library(stalltrace_test_support STATIC EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/support/golden_text.cpp
      ${CMAKE_SOURCE_DIR}/tests/support/source_tree.cpp)
    target_link_libraries(stalltrace_test_support PUBLIC stalltrace_base stalltrace_test_flags GTest::gtest)
    target_include_directories(stalltrace_test_support PUBLIC ${CMAKE_SOURCE_DIR})
    # No other file names the folder: ccache then knows a clone's files, whatever its folder is called.
    set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/support/source_tree.cpp TARGET_DIRECTORY stalltrace_test_support PROPERTIES
      COMPILE_DEFINITIONS STALLTRACE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  endif()
  add_executable(${name} ${TEST_SOURCES})
  stalltrace_unity(${name})
  if(STALLTRACE_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM stalltrace_test_headers)
  endif()
  target_link_libraries(${name} PRIVATE ${TEST_DEPENDS} stalltrace_test_support stalltrace_test_flags GTest::gtest_main GTest::gmock Threads::Threads)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  if(TEST_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABELS}")
  else()
    set_tests_properties(${name} PROPERTIES LABELS unit)
  endif()
endfunction()
