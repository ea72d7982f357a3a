// SPDX-License-Identifier: Apache-2.0
// The text of `dcgmi health -c` of DCGM 2 to 4, after its source: the table of dcgmi/Health.cpp and DcgmiOutput.cpp,
// and the messages of dcgmlib/dcgm_errors.h. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/events/imported/gpu_state.h"

namespace stalltrace::import {

struct HealthReport {
  int64_t line = 0;                                // of its head, from 1
  std::string overall;                             // "Healthy", "Warning", "Failure"; empty: it was cut off
  std::vector<std::pair<int64_t, GpuState>> gpus;  // which have incidents, with their lines; `device` is DCGM's number
};

/// The head of a report. Older versions of DCGM write it without the table's border: these are not read.
bool is_health_report_line(std::string_view line);

/// Reads reports line by line.
class HealthReportReader {
 public:
  void take(std::string_view line, int64_t number);
  /// After the last line.
  [[nodiscard]] std::vector<HealthReport> finish();
  /// Other entities with incidents, such as NVSwitches, and GPUs beyond the limit.
  [[nodiscard]] uint64_t left_out() const { return left_out_; }

 private:
  void take_entity(std::string_view id, int64_t number);
  void end_system();

  std::vector<HealthReport> reports_;
  bool in_report_ = false;
  std::string group_;  // of entities: "GPU"
  bool in_gpu_ = false;
  std::string system_;   // "Memory system"
  std::string result_;   // "Warning"
  std::string message_;  // its lines, joined
  size_t gpus_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace stalltrace::import
