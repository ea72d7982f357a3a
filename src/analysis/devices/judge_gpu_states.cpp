// SPDX-License-Identifier: Apache-2.0
#include "analysis/devices/judge_gpu_states.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analysis/thresholds/devices.h"
#include "base/text.h"
#include "model/events/imported/gpu_state.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostFindings = 16;

/// The newest report of a file.
struct States {
  std::string file;
  bool by_dcgm = false;
  int64_t time_ns = 0;
  std::string head;  // what the report says of all
  std::vector<GpuState> gpus;
};

struct RankOfPid {
  std::string node;
  int32_t rank = 0;
  int32_t pid = 0;
};

bool has(const GpuState& gpu, GpuCondition condition) {
  return std::ranges::find(gpu.conditions, condition) != gpu.conditions.end();
}

bool is_broken(const GpuState& gpu) {
  return has(gpu, GpuCondition::kUncorrectableEcc) || has(gpu, GpuCondition::kRemapFailed) ||
         has(gpu, GpuCondition::kResetRequired) || has(gpu, GpuCondition::kNvlinkFailed) ||
         has(gpu, GpuCondition::kPcieFailed) || has(gpu, GpuCondition::kOtherFailed);
}

bool is_throttled(const GpuState& gpu) {
  return has(gpu, GpuCondition::kHwSlowdown) || has(gpu, GpuCondition::kHwThermal) ||
         has(gpu, GpuCondition::kHwPowerBrake) || has(gpu, GpuCondition::kSwThermal);
}

/// In a clause each, what is most serious first.
std::string conditions_text(const GpuState& gpu) {
  std::vector<std::string> parts;
  const auto add = [&](GpuCondition condition, std::string text) {
    if (has(gpu, condition)) {
      parts.push_back(std::move(text));
    }
  };
  add(GpuCondition::kResetRequired, "its driver asks for a reset or another recovery");
  add(GpuCondition::kRemapFailed, "a row of its memory could not be replaced");
  add(GpuCondition::kUncorrectableEcc,
      fmt::format("{} since its driver was loaded", count_of(gpu.uncorrectable, "uncorrectable ECC error")));
  add(GpuCondition::kNvlinkFailed, "DCGM reports a failure of its NVLinks");
  add(GpuCondition::kPcieFailed, "DCGM reports a failure of its PCIe link");
  add(GpuCondition::kOtherFailed, "DCGM reports a failure, which the file describes");
  add(GpuCondition::kHwThermal, "the hardware lowers its clocks for heat");
  add(GpuCondition::kHwPowerBrake, "the power supply's signal lowers its clocks");
  if (!has(gpu, GpuCondition::kHwThermal) && !has(gpu, GpuCondition::kHwPowerBrake)) {
    add(GpuCondition::kHwSlowdown, "the hardware lowers its clocks");
  }
  add(GpuCondition::kSwThermal, "the driver lowers its clocks for heat");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string numbers_text(const GpuState& gpu) {
  std::vector<std::string> parts;
  if (gpu.sm_mhz) {
    parts.push_back(gpu.max_sm_mhz ? fmt::format("{} of {} MHz", *gpu.sm_mhz, *gpu.max_sm_mhz)
                                   : fmt::format("{} MHz", *gpu.sm_mhz));
  }
  if (gpu.temperature) {
    parts.push_back(fmt::format("{} degrees Celsius", *gpu.temperature));
  }
  return parts.empty() ? "" : fmt::format(" ({})", fmt::join(parts, ", "));
}

class Judge {
 public:
  Judge(EventSource& source, Report& report) : source_(source), report_(report) {}

  Status judge() {
    ST_TRY(read());
    for (const auto& [id, states] : states_) {
      judge(states);
    }
    if (!states_.empty() && report_.nodes == 0) {
      report_.nodes = std::ssize(states_);
      report_.range = {states_.begin()->second.time_ns, states_.begin()->second.time_ns};
      report_.judged_range = report_.range;
    }
    if (!states_.empty()) {
      report_.ends_unknown = true;
      report_.healthy = report_.findings.empty();
    }
    return {};
  }

 private:
  Status read() {
    std::map<NodeId, Node> others;
    ST_ASSIGN(const std::vector<Node> nodes, source_.nodes());
    for (const Node& node : nodes) {
      if (node.agent_version == kGpuStateFormat || node.agent_version == kGpuHealthFormat) {
        states_[node.node_id].file = node.name;
        states_[node.node_id].by_dcgm = node.agent_version == kGpuHealthFormat;
      } else {
        others.emplace(node.node_id, node);
      }
    }
    if (states_.empty()) {
      return {};
    }
    ST_ASSIGN(const std::vector<Process> processes, source_.processes());
    for (const Process& process : processes) {
      const auto node = others.find(process.node_id);
      if (process.rank && node != others.end() && !lacks(node->second, kLacksPids)) {
        ranks_[process.pid].push_back({node->second.name, *process.rank, process.pid});
      }
    }
    return source_.log_lines({}, [&](const LogLine& row) {
      const auto states = states_.find(row.node_id);
      if (states == states_.end()) {
        return;
      }
      if (row.kind == LogKind::kVersion) {
        states->second.gpus.clear();
        states->second.time_ns = row.timestamp_ns;
        states->second.head = row.text;
      } else if (auto gpu = gpu_state_from_text(row.text)) {
        states->second.gpus.push_back(std::move(*gpu));
      }
    });
  }

  /// The rank that uses a GPU, if one has the number of one of its processes.
  const RankOfPid* rank_of(const GpuState& gpu) const {
    const RankOfPid* found = nullptr;
    for (const int32_t pid : gpu.pids) {
      const auto ranks = ranks_.find(pid);
      if (ranks == ranks_.end()) {
        continue;
      }
      if (found != nullptr || ranks->second.size() > 1) {
        return nullptr;
      }
      found = &ranks->second.front();
    }
    return found;
  }

  void judge(const States& states) {
    int64_t capped = 0;
    int64_t pending = 0;
    int64_t faulty = 0;
    int64_t warned = 0;
    for (const GpuState& gpu : states.gpus) {
      capped += has(gpu, GpuCondition::kPowerCap) ? 1 : 0;
      pending += has(gpu, GpuCondition::kRemapPending) ? 1 : 0;
      warned += has(gpu, GpuCondition::kOtherWarning) ? 1 : 0;
      if (!is_broken(gpu) && !is_throttled(gpu)) {
        continue;
      }
      if (++faulty <= static_cast<int64_t>(kMostFindings)) {
        add_finding(states, gpu);
      }
    }
    const std::string what = states.by_dcgm ? printable(states.head) : count_of(std::ssize(states.gpus), "GPU");
    std::string text = fmt::format("{}: {}, {} with errors or clocks kept low", states.file, what, faulty);
    text += capped > 0 ? fmt::format(", {} at the power limit, which is usual under load", capped) : "";
    text += pending > 0 ? fmt::format(", {} with a memory row to be replaced at the next reset", pending) : "";
    text += warned > 0 ? fmt::format(", {} with other warnings, which the file describes", warned) : "";
    report_.notes.push_back(text + (states.by_dcgm ? "; dcgmi does not show when" : "; nvidia-smi shows a moment"));
  }

  void add_finding(const States& states, const GpuState& gpu) {
    const bool broken = is_broken(gpu);
    const RankOfPid* rank = rank_of(gpu);
    Finding finding{.cause = broken ? Cause::kDeviceError : Cause::kSlowDevice, .cost_known = false};
    finding.severity = rank != nullptr ? Severity::kHigh : Severity::kMedium;
    finding.confidence = rank != nullptr ? kDeviceOfHostConfidence : kDeviceAloneConfidence;
    finding.culprit = rank != nullptr ? Culprit{rank->node, rank->rank, rank->pid}
                                      : Culprit{states.file, std::nullopt, gpu.pids.empty() ? 0 : gpu.pids.front()};
    finding.window = {states.time_ns, states.time_ns};
    finding.summary =
        fmt::format("GPU {}{}: {}{}.", gpu.device,
                    rank != nullptr ? fmt::format(" of rank {} ({}, pid {})", rank->rank, rank->node, rank->pid)
                                    : fmt::format(" in {}", states.file),
                    conditions_text(gpu), numbers_text(gpu));
    finding.evidence.push_back({"log_line", 1, fmt::format("{}: {}", states.file, gpu_state_text(gpu)), {}});
    finding.evidence.push_back({"log_line",
                                0,
                                states.by_dcgm
                                    ? "dcgmi shows what its checks saw: since when, and what it cost, is not known"
                                    : "nvidia-smi shows a moment: how long it was so, and what it cost, is not known",
                                {}});
    finding.remedy = broken ? "look at the host's kernel log for Xid messages (dmesg | grep -i xid); reset the GPU or "
                              "restart the host, and have the GPU replaced if it comes back"
                            : "look at the host's fans, inlet temperature and power supplies, and watch it: nvidia-smi "
                              "dmon -s pcv; take the host out of the job if it stays so";
    join(rank, finding);
    report_.findings.push_back(std::move(finding));
  }

  /// Findings about the same rank say what its GPU shows.
  void join(const RankOfPid* rank, Finding& finding) {
    for (Finding& other : report_.findings) {
      if (rank != nullptr && other.culprit && other.culprit->rank == rank->rank &&
          (other.culprit->pid == 0 || other.culprit->pid == rank->pid)) {
        finding.evidence.push_back({"finding", 1, fmt::format("{}: {}", to_text(other.cause), other.summary), {}});
        other.evidence.push_back({"log_line", 1, finding.summary, {}});
      }
    }
  }

  EventSource& source_;
  Report& report_;
  std::map<NodeId, States> states_;
  std::map<int32_t, std::vector<RankOfPid>> ranks_;
};

}  // namespace

Status add_gpu_states(EventSource& source, Report& report) { return Judge(source, report).judge(); }

}  // namespace stalltrace::analysis
