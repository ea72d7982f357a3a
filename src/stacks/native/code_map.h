// SPDX-License-Identifier: Apache-2.0
// The executable memory of a process: which file, or which anonymous memory, an address lies in.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"

namespace stalltrace::stacks {

struct CodeRegion {
  MappedFile mapping;  // `path` and `inode` are empty in anonymous memory
  uint64_t elf = 0;    // where the file's first bytes are mapped; 0: nowhere

  /// Code that the process made itself.
  [[nodiscard]] bool is_anonymous() const { return mapping.inode == 0 && elf == 0; }
  /// The offset in the file.
  [[nodiscard]] uint64_t offset_of(uint64_t address) const { return address - mapping.start + mapping.offset; }
};

class CodeMap {
 public:
  /// Errors: those of reading /proc/PID/maps.
  static Result<CodeMap> read(const Procfs& procfs, pid_t pid);
  /// The same from the file's text. Malformed lines are skipped.
  static CodeMap parse(std::string_view maps);

  /// Null outside of executable memory.
  [[nodiscard]] const CodeRegion* at(uint64_t address) const;

 private:
  std::vector<CodeRegion> regions_;  // in order
};

}  // namespace stalltrace::stacks
