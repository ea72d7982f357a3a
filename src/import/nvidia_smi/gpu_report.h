// SPDX-License-Identifier: Apache-2.0
// The text of `nvidia-smi -q`, whole or of some sections (-d PERFORMANCE,ECC,...), of drivers 470 to 580: after its man
// page and listings that were published. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/events/imported/gpu_state.h"

namespace stalltrace::import {

struct GpuReport {
  int64_t line = 0;  // of its beginning, from 1
  std::string time;  // "Tue May  5 10:00:03 2026", local time; empty: not stated
  std::string driver;
  std::vector<std::pair<int64_t, GpuState>> gpus;  // with their lines
};

/// The head of a report.
bool is_gpu_report_line(std::string_view line);

/// Reads reports line by line.
class GpuReportReader {
 public:
  void take(std::string_view line, int64_t number);
  /// After the last line.
  [[nodiscard]] std::vector<GpuReport> finish();
  [[nodiscard]] uint64_t left_out() const { return left_out_; }  // GPUs beyond the limit

 private:
  void take_value(size_t indent, std::string_view key, std::string_view value);

  std::vector<GpuReport> reports_;
  GpuState* gpu_ = nullptr;
  std::string section_;  // at 4 blanks
  std::string part_;     // at 8 blanks
  size_t gpus_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace stalltrace::import
