// SPDX-License-Identifier: Apache-2.0
#include "import/dcgm_health/health_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/text.h"

namespace stalltrace::import {
namespace {

constexpr size_t kMostGpus = 100'000;  // of a file
constexpr size_t kLongestText = 64;
constexpr size_t kLongestMessage = 8192;

struct Meaning {
  std::string_view words;
  GpuCondition condition;
};
/// Of DCGM's messages. Newer ones have "clocks event due to" for "clock throttling due to".
constexpr std::array kMeanings{Meaning{"volatile double-bit ECC error", GpuCondition::kUncorrectableEcc},
                               Meaning{"row remapping failed", GpuCondition::kRemapFailed},
                               Meaning{"row remappings are pending", GpuCondition::kRemapPending},
                               Meaning{"pending retired page", GpuCondition::kRemapPending},
                               Meaning{"Pending page retirements together with a DBE", GpuCondition::kResetRequired},
                               Meaning{"uncontained error", GpuCondition::kResetRequired},
                               Meaning{"due to thermal violation", GpuCondition::kSwThermal},
                               Meaning{"due to power violation", GpuCondition::kPowerCap}};

bool is_pending(GpuCondition condition) {
  return condition == GpuCondition::kRemapPending || condition == GpuCondition::kPowerCap;
}

void add(GpuState& gpu, GpuCondition condition) {
  if (std::ranges::find(gpu.conditions, condition) == gpu.conditions.end()) {
    gpu.conditions.push_back(condition);
  }
}

/// The number in "Detected 3 volatile double-bit ECC error(s) in GPU 0."; 1 if there is none.
int64_t errors_in(std::string_view message) {
  std::string_view before = message.substr(0, message.find(" volatile double-bit ECC error"));
  before = before.substr(before.rfind(' ') + 1);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(before.data(), before.data() + before.size(), number);
  const bool whole = error == std::errc() && end == before.data() + before.size();
  return whole && number > 0 && number < (int64_t{1} << 31) ? number : 1;
}

/// "| left | right |"
std::optional<std::pair<std::string_view, std::string_view>> columns_of(std::string_view line) {
  const std::string_view row = trim(line);
  const size_t middle = row.find(" | ", 1);
  if (!row.starts_with("| ") || !row.ends_with(" |") || middle == std::string_view::npos || middle + 3 >= row.size()) {
    return std::nullopt;
  }
  const std::string_view right = row.substr(middle + 3);
  return std::pair(row.substr(2, std::max<size_t>(middle, 2) - 2), trim(right.substr(0, right.size() - 1)));
}

}  // namespace

bool is_health_report_line(std::string_view line) {
  return line.starts_with("| Health Monitor Report ") && trim(line).ends_with(" |");
}

void HealthReportReader::take(std::string_view line, int64_t number) {
  if (is_health_report_line(line)) {
    end_system();
    reports_.push_back({.line = number, .overall = {}, .gpus = {}});
    in_report_ = true;
    in_gpu_ = false;
    group_.clear();
    return;
  }
  if (!in_report_) {
    return;
  }
  if (line.starts_with("+-")) {  // its end
    end_system();
    in_report_ = false;
    return;
  }
  const auto columns = columns_of(line);
  if (!columns) {
    return;
  }
  const auto& [left, right] = *columns;
  const std::string_view label = trim(left);
  if (label.empty()) {
    if (!system_.empty() && message_.size() < kLongestMessage) {
      message_ += message_.empty() ? "" : " ";
      message_ += right;
    }
    return;
  }
  end_system();
  if (!label.starts_with("-> ")) {
    group_ = label.substr(0, kLongestText);
    in_gpu_ = false;
    if (label == "Overall Health") {
      reports_.back().overall = right.substr(0, kLongestText);
    }
    return;
  }
  constexpr size_t kLevel = 3;  // columns
  const size_t level = left.find("-> ") / kLevel;
  const std::string_view name = label.substr(3);
  if (level == 0) {
    take_entity(name, number);
  } else if (level == 2 && in_gpu_) {
    system_ = name.substr(0, kLongestText);
    result_ = right.substr(0, kLongestText);
  }
}

void HealthReportReader::take_entity(std::string_view id, int64_t number) {
  constexpr size_t kMostDigits = 6;
  in_gpu_ = group_ == "GPU" && !id.empty() && id.size() <= kMostDigits && std::ranges::all_of(id, is_digit) &&
            gpus_ < kMostGpus;
  if (!in_gpu_) {
    ++left_out_;
    return;
  }
  ++gpus_;
  reports_.back().gpus.emplace_back(number, GpuState{.device = std::string(id)});
}

/// The incidents of a part of a GPU: DCGM joins their messages.
void HealthReportReader::end_system() {
  if (system_.empty()) {
    return;
  }
  GpuState& gpu = reports_.back().gpus.back().second;
  bool known = false;
  bool explained = false;  // a failure is more than something that is pending
  for (const Meaning& meaning : kMeanings) {
    if (message_.find(meaning.words) != std::string::npos) {
      add(gpu, meaning.condition);
      known = true;
      explained = explained || !is_pending(meaning.condition);
      gpu.uncorrectable += meaning.condition == GpuCondition::kUncorrectableEcc ? errors_in(message_) : 0;
    }
  }
  if (result_ == "Failure" && !explained) {
    add(gpu, system_ == "NVLINK system" ? GpuCondition::kNvlinkFailed
             : system_ == "PCIe system" ? GpuCondition::kPcieFailed
                                        : GpuCondition::kOtherFailed);
  } else if (result_ == "Warning" && !known) {
    add(gpu, GpuCondition::kOtherWarning);
  }
  system_.clear();
  result_.clear();
  message_.clear();
}

std::vector<HealthReport> HealthReportReader::finish() {
  end_system();
  in_report_ = false;
  return std::move(reports_);
}

}  // namespace stalltrace::import
