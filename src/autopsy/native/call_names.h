// SPDX-License-Identifier: Apache-2.0
// What native code on a thread's stack means: which mapped files belong to a collective library or a device runtime,
// and which of their functions are calls that a rank can be inside of. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "autopsy/snapshot.h"

namespace stalltrace::autopsy {

enum class CodeKind : uint8_t {
  kProgram,      // the user's: what is further out on the stack is not examined
  kTransparent,  // the C and C++ library and PyTorch's own, which call both ways
  kLibrary,      // a collective library or its transports
  kDevice,       // the runtime or driver of a GPU
};

/// By the mapped file's name.
CodeKind code_kind(std::string_view path);

/// The call that a function of such a file is, by its name as base/elf gives it ("PMPI_Allreduce",
/// "gloo::allreduce(gloo::AllreduceOptions const&)"); nullopt for all others.
std::optional<OpenCall> call_of_function(std::string_view function);

/// The same for a Python function by its name and file: those of torch.distributed and Horovod.
std::optional<OpenCall> call_of_python(std::string_view function, std::string_view file);

}  // namespace stalltrace::autopsy
