// SPDX-License-Identifier: Apache-2.0
// The time that the device's copy engine takes for received data. On a healthy device it keeps up and takes none;
// LAB_SLOW_COPY names a file that may hold a rate in MB/s, like that of a card that fell back to a narrow PCIe link.
#pragma once

#include <cstddef>
#include <string>

namespace lab::nccl {

class CopyEngine {
 public:
  CopyEngine();
  /// Reads the rate again: once per plan is enough.
  void refresh();
  /// Waits for the duration of a copy of this size.
  void copy(size_t bytes) const;

 private:
  std::string path_;
  double bytes_per_second_ = 0;  // 0: it keeps up
};

}  // namespace lab::nccl
