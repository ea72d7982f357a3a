// SPDX-License-Identifier: Apache-2.0
// For benchmarks: the memory that this process has had at most.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace stalltrace {

inline int64_t peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::atoll(line.c_str() + std::string_view("VmHWM:").size());
    }
  }
  return 0;
}

}  // namespace stalltrace
