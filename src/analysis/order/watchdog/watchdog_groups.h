// SPDX-License-Identifier: Apache-2.0
// How far each rank of a process group was when PyTorch's watchdog reported a timeout, from all its lines in the logs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/source.h"

namespace stalltrace::analysis {

/// What one line states of a rank's progress in a process group.
struct WatchdogStatement {
  std::optional<int64_t> stated_ns;  // the line's own time; none: it has none, and compares with nothing
  std::optional<int64_t> waits_in;
  std::optional<int64_t> completed;
};

/// One rank in one process group, by its last lines.
struct WatchdogState {
  std::optional<int64_t> stated_ns;  // when the numbers below were printed; none: the line has no time
  std::optional<int64_t> waits_in;   // the call that did not end in time
  std::optional<int64_t> enqueued;   // the last call that was handed to NCCL
  std::optional<int64_t> completed;  // the last one that ended
  std::string op;                    // of the call that it waits in, PyTorch's name; empty: not known
  std::optional<int64_t> elements;   // of its input
  std::optional<int64_t> waited_ms;
  int32_t pid = 0;
  NodeId node_id = 0;
  int64_t time_ns = 0;
  std::string text;                           // the line that states how far it was
  bool group_by_number = false;               // its line names no group: it is the one that waits in this number
  std::vector<WatchdogStatement> statements;  // all of this attempt of the job

  /// Nothing of its own is open in the group: every call that it made has ended.
  [[nodiscard]] bool outside() const { return !waits_in && enqueued && completed == enqueued; }
  /// When a line first stated that the rank waited in this call or a later one. None: no line with a time does.
  [[nodiscard]] std::optional<int64_t> waited_since_ns(int64_t call) const;
  /// When a line first stated that this call had ended on the rank. None: no line with a time does.
  [[nodiscard]] std::optional<int64_t> ended_since_ns(int64_t call) const;
  /// It waits in a later call, or stated that this one had ended.
  [[nodiscard]] bool is_past(int64_t call) const {
    return (waits_in && *waits_in > call) || completed.value_or(-1) >= call;
  }
};

struct WatchdogGroup {
  std::string name;  // "0(default_pg)"; empty: no line of the logs names groups (PyTorch before 2.3)
  std::map<int32_t, WatchdogState> ranks;  // by rank in the job
};

struct WatchdogLogs {
  std::vector<WatchdogGroup> groups;  // by name
  std::map<NodeId, std::string> node_names;
  std::set<int32_t> ranks;    // with any line of PyTorch's on its collectives
  std::set<int32_t> waiting;  // in a call of some group
  int32_t world_size = 0;     // of the largest communicator in the logs; 0: not known
  /// Ranks whose lines report a timeout without a number (PyTorch before 2.0).
  std::map<int32_t, WatchdogState> without_number;
};

/// Reads the rows of log_line that are reports of timeouts; those without a rank are left out.
Result<WatchdogLogs> read_watchdog_logs(EventSource& source);

}  // namespace stalltrace::analysis
