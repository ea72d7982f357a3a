// SPDX-License-Identifier: Apache-2.0
// How long the device's copy engine takes for what the network delivers. On a healthy device it keeps up and this is
// nothing; LAB_SLOW_COPY names a file that may hold a rate in MB/s, as of a card that fell back to a narrow PCIe link.
#pragma once

#include <cstddef>
#include <string>

namespace lab::nccl {

class CopyEngine {
 public:
  CopyEngine();
  /// Reads the rate anew: once for each plan is enough.
  void refresh();
  /// Waits as long as a copy of so many bytes takes.
  void copy(size_t bytes) const;

 private:
  std::string path_;
  double bytes_per_second_ = 0;  // 0: it keeps up
};

}  // namespace lab::nccl
