// SPDX-License-Identifier: Apache-2.0
// Code addresses of a process → names, by the symbol tables of the files it maps. Nothing is kept: a table of a large
// library is looked through once for each stack that is new.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/procfs.h"

namespace stalltrace::capture {

/// A function and how far into it an address lies.
struct CodePlace {
  std::string function;  // demangled
  uint64_t into = 0;     // bytes
};

/// The functions of an ELF file at these offsets in it, one result for each; nothing where no symbol covers it, nor for
/// a file that is none.
std::vector<std::optional<CodePlace>> functions_at(const std::string& path, std::span<const uint64_t> file_offsets);

/// One line a frame: "train_step+0x4f (train)", or "+0x1f40 (libstripped.so)" with the offset in the file. `addresses`
/// are those of a stack, innermost first: all but the first are return addresses. It ends before the first that is in
/// no file: whoever keeps no frame pointers leads there. Empty when the process is gone.
std::string describe_frames(const Procfs& procfs, pid_t pid, std::span<const uint64_t> addresses);

}  // namespace stalltrace::capture
