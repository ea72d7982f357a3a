// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace stalltrace::capture {

/// What this kernel's verifier says of a BPF program.
struct ProgramReport {
  std::string program;
  bool loaded = false;
  uint64_t instructions = 0;  // that the verifier looked at, those of all paths
  uint64_t verified_us = 0;
  std::string detail;  // where it was refused: the kernel's words
};

}  // namespace stalltrace::capture
