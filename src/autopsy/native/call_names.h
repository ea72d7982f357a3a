// SPDX-License-Identifier: Apache-2.0
// What native code on a thread's stack means: which functions of a collective library or a device runtime are calls
// that a rank can be inside of. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "autopsy/snapshot.h"

namespace stalltrace::autopsy {

/// The call that a function of a library or a device's runtime is, by its name as base/elf gives it ("PMPI_Allreduce",
/// "gloo::allreduce(gloo::AllreduceOptions const&)"); nullopt for all others.
std::optional<OpenCall> call_of_function(std::string_view function);

/// The same for a Python function by its name and file: those of torch.distributed and Horovod.
std::optional<OpenCall> call_of_python(std::string_view function, std::string_view file);

}  // namespace stalltrace::autopsy
