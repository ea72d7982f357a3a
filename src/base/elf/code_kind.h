// SPDX-License-Identifier: Apache-2.0
// Whose code a mapped file is: the program's, a collective library's, a device runtime's or the system's. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace stalltrace {

enum class CodeKind : uint8_t {
  kProgram,      // the user's
  kTransparent,  // the C and C++ library and PyTorch's own, which call both ways
  kLibrary,      // a collective library or its transports
  kDevice,       // the runtime or driver of a GPU
};

/// By the mapped file's name.
CodeKind code_kind(std::string_view path);

/// The kernel's and the C and C++ library's: what nearly every wait is inside of.
bool is_system_code(std::string_view path);

/// True for files that are not the user's program: those of code_kind(), all libraries by their name, the interpreter
/// of Python and its modules, and all below the system's library folders.
bool is_library_file(std::string_view path);

}  // namespace stalltrace
