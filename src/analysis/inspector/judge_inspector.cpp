// SPDX-License-Identifier: Apache-2.0
#include "analysis/inspector/judge_inspector.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/thresholds/inspector.h"
#include "analysis/thresholds/order.h"
#include "analysis/timeline/timeline.h"
#include "base/clock.h"
#include "base/numbers/median.h"
#include "base/text.h"
#include "model/events/imported/inspector.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostInstances = 4'000'000;

struct Part {
  int32_t rank = 0;
  int64_t duration_ns = 0;
};

/// The calls of one operation on one communicator.
struct Sequence {
  CommHash comm = 0;  // NCCL's own
  Operation op = Operation::kAllReduce;
  int32_t nranks = 0;
  std::map<int64_t, std::vector<Part>> instances;  // by number
};

/// How often a rank came last, and what that cost.
struct Lateness {
  int64_t instances = 0;
  int64_t waited_ns = 0;  // by the others, in the median
  std::vector<int64_t> own_ns;
  std::vector<int64_t> others_ns;
};

struct RankKey {
  NodeId node = 0;
  int32_t pid = 0;
  auto operator<=>(const RankKey&) const = default;
};

class Judge {
 public:
  Judge(EventSource& source, Report& report) : source_(source), report_(report) {}

  Status judge() {
    ST_TRY(read());
    if (nodes_.empty()) {
      return {};
    }
    for (const auto& [hash, sequence] : sequences_) {
      judge_sequence(sequence);
    }
    add_notes();
    if (report_.nodes == 0) {
      report_.nodes = std::ssize(nodes_);
      report_.ranks = std::ssize(processes_);
      report_.collectives = calls_;
      report_.range = range_;
      report_.judged_range = range_;
    }
    report_.ends_unknown = true;  // a call that never ended is not in its output
    report_.healthy = report_.findings.empty();
    return {};
  }

 private:
  Status read() {
    ST_ASSIGN(const std::vector<Node> nodes, source_.nodes());
    for (const Node& node : nodes) {
      if (node.agent_version == kInspectorFormat) {
        nodes_.emplace(node.node_id, node.name);
      }
    }
    if (nodes_.empty()) {
      return {};
    }
    ST_ASSIGN(const std::vector<Communicator> communicators, source_.communicators());
    int32_t largest = 0;
    std::set<CommHash> of_largest;
    for (const Communicator& row : communicators) {
      if (!nodes_.contains(row.node_id)) {
        continue;
      }
      Sequence& sequence = sequences_[row.comm_id_hash];
      sequence.comm = row.nccl_comm_hash;
      sequence.nranks = row.nranks.value_or(0);
      if (sequence.nranks > largest) {
        of_largest.clear();
        largest = sequence.nranks;
      }
      if (sequence.nranks == largest) {
        of_largest.insert(sequence.comm);
      }
      members_[{row.comm_id_hash, row.rank.value_or(-1)}] = {row.node_id, row.pid};
    }
    for (const Communicator& row : communicators) {
      if (of_largest.size() == 1 && nodes_.contains(row.node_id) && of_largest.contains(row.nccl_comm_hash)) {
        job_ranks_[{row.node_id, row.pid}] = row.rank;
      }
    }
    size_t held = 0;
    return source_.collectives({}, [&](const Collective& row) {
      const auto sequence = sequences_.find(row.comm_id_hash);
      if (!nodes_.contains(row.node_id) || sequence == sequences_.end()) {
        return;
      }
      ++calls_;
      processes_.insert({row.node_id, row.pid});
      range_.from_ns = range_.to_ns == 0 ? row.timestamp_ns : std::min(range_.from_ns, row.timestamp_ns);
      range_.to_ns = std::max(range_.to_ns, row.timestamp_ns + row.duration_ns.value_or(0));
      sequence->second.op = row.op;
      if (!synchronises(row.op) || !row.seq || !row.rank || !row.duration_ns || held++ >= kMostInstances) {
        return;
      }
      sequence->second.instances[*row.seq].push_back({*row.rank, *row.duration_ns});
    });
  }

  void judge_sequence(const Sequence& sequence) {
    std::map<int32_t, Lateness> late;
    int64_t complete = 0;
    for (const auto& [number, parts] : sequence.instances) {
      std::set<int32_t> ranks;
      for (const Part& part : parts) {
        ranks.insert(part.rank);
      }
      if (std::ssize(parts) != sequence.nranks || ranks.size() != parts.size() || parts.size() < 2) {
        ++incomplete_;
        continue;
      }
      ++complete;
      const auto shortest = std::ranges::min_element(parts, {}, &Part::duration_ns);
      std::vector<int64_t> others;
      for (const Part& part : parts) {
        if (&part != &*shortest) {
          others.push_back(part.duration_ns);
        }
      }
      const int64_t second = *std::ranges::min_element(others);
      const int64_t typical = median(std::move(others));
      const bool alone =
          static_cast<double>(shortest->duration_ns) <= kInspectorShortShare * static_cast<double>(second);
      if (alone && typical - shortest->duration_ns >= kInspectorWaitNs) {
        Lateness& one = late[shortest->rank];
        ++one.instances;
        one.waited_ns += typical - shortest->duration_ns;
        one.own_ns.push_back(shortest->duration_ns);
        one.others_ns.push_back(typical);
      }
    }
    complete_ += complete;
    for (const auto& [rank, lateness] : late) {
      const bool often = static_cast<double>(lateness.instances) >= kInspectorLateShare * static_cast<double>(complete);
      if (often && lateness.instances >= kInspectorInstances) {
        add_finding(sequence, rank, lateness, complete);
      }
    }
  }

  void add_finding(const Sequence& sequence, int32_t rank, const Lateness& lateness, int64_t complete) {
    const RankKey who = members_[{inspector_sequence(sequence.comm, sequence.op), rank}];
    const auto in_job = job_ranks_.find(who);
    const std::optional<int32_t> job_rank = in_job == job_ranks_.end() ? std::nullopt : in_job->second;
    const auto node = nodes_.find(who.node);
    const std::string host = node == nodes_.end() ? "" : node->second;
    // With few ranks the shortest part may be chance; with times the same calls can be judged one by one.
    Finding finding{.cause = Cause::kLateRank, .severity = Severity::kMedium, .confidence = kStandingStillConfidence};
    finding.culprit = Culprit{host, job_rank, who.pid};
    finding.comm_id_hash = sequence.comm;
    finding.op = sequence.op;
    finding.collectives_affected = lateness.instances;
    finding.stall_ms = static_cast<double>(lateness.waited_ns) / static_cast<double>(kNsPerMs);
    finding.window = range_;
    const std::string name = job_rank ? fmt::format("Rank {}", *job_rank)
                                      : fmt::format("Rank {} of communicator {}", rank, format_hash(sequence.comm));
    finding.summary =
        fmt::format("{} ({}, pid {}) came last to {} of {} {}s: its part took {} in the median, that of the others {}.",
                    name, host, who.pid, lateness.instances, complete, display_name(sequence.op),
                    format_duration(median(lateness.own_ns)), format_duration(median(lateness.others_ns)));
    finding.evidence.push_back(
        {"collective",
         lateness.instances,
         fmt::format("measured by NCCL's Inspector; the others waited {} in all", format_duration(lateness.waited_ns)),
         {}});
    finding.evidence.push_back(
        {"collective", 0, "what the rank did before these calls is not known: the Inspector sees only them", {}});
    finding.remedy = fmt::format(
        "see what that rank does before its {}s: a profile of its step (torch.profiler), its input, its GPU's clocks "
        "(nvidia-smi -q -d PERFORMANCE), or record with stalltrace run",
        display_name(sequence.op));
    const auto same = std::ranges::find_if(report_.findings, [&](const Finding& other) {
      return other.cause == finding.cause && other.culprit && finding.culprit->rank &&
             other.culprit->rank == finding.culprit->rank;
    });
    if (same != report_.findings.end()) {
      same->evidence.push_back({"collective", lateness.instances, finding.summary, {}});
    } else {
      report_.findings.push_back(std::move(finding));
    }
  }

  void add_notes() const {
    report_.notes.push_back(fmt::format(
        "NCCL's Inspector: {} compared; it writes a call after its end, so that one that hangs is not there",
        count_of(complete_, "instance")));
    if (incomplete_ > 0) {
      report_.notes.push_back(fmt::format("NCCL's Inspector: {} without the calls of all ranks, not judged",
                                          count_of(incomplete_, "instance")));
    }
  }

  EventSource& source_;
  Report& report_;
  std::map<NodeId, std::string> nodes_;
  std::map<CommHash, Sequence> sequences_;
  std::map<std::pair<CommHash, int32_t>, RankKey> members_;
  std::map<RankKey, std::optional<int32_t>> job_ranks_;
  std::set<RankKey> processes_;
  TimeRange range_{0, 0};
  int64_t calls_ = 0;
  int64_t complete_ = 0;
  int64_t incomplete_ = 0;
};

}  // namespace

Status add_inspector(EventSource& source, Report& report) { return Judge(source, report).judge(); }

}  // namespace stalltrace::analysis
