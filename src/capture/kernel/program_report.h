// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace stalltrace::capture {

/// The verifier's result for one BPF program.
struct ProgramReport {
  std::string program;
  bool loaded = false;
  uint64_t instructions = 0;  // instructions that the verifier examined on all paths
  uint64_t verified_us = 0;
  std::string detail;  // for a refused program: the kernel's message
};

}  // namespace stalltrace::capture
