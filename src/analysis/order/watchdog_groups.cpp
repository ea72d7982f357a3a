// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/watchdog_groups.h"

#include <utility>

#include "model/events/imported/watchdog_report.h"

namespace stalltrace::analysis {
namespace {

/// The line that names the operation and not the group: "Watchdog caught collective operation timeout: ...".
struct Caught {
  LogLine row;
  WatchdogReport report;
};

void note_line(const LogLine& row, WatchdogState& state) {
  state.pid = row.pid;
  state.node_id = row.node_id;
  state.time_ns = row.timestamp_ns;
  state.text = row.text;
}

void add_caught(const Caught& caught, WatchdogState& state) {
  state.op = caught.report.op;
  state.elements = caught.report.elements;
  state.waited_ms = caught.report.waited_ms;
}

class Reader {
 public:
  void take(const LogLine& row) {
    const auto report = row.kind == LogKind::kTimeout && row.rank ? read_watchdog_report(row.text) : std::nullopt;
    if (!report) {
      return;
    }
    if (report->group.empty() && report->asked) {
      return;  // of which group is not known
    }
    if (report->group.empty()) {
      const auto key = std::pair(*row.rank, report->waits_in.value_or(-1));
      caught_.insert_or_assign(key, Caught{row, {}});
      Caught& kept = caught_.at(key);
      kept.report = *read_watchdog_report(kept.row.text);  // its views are into the row that is kept
      return;
    }
    WatchdogState& state = groups_[std::string(report->group)][*row.rank];
    note_line(row, state);
    state.waits_in = report->asked ? state.waits_in : report->waits_in;
    state.enqueued = report->enqueued ? report->enqueued : state.enqueued;
    state.completed = report->completed ? report->completed : state.completed;
    if (state.waits_in && state.enqueued && *state.enqueued < *state.waits_in) {
      state.waits_in.reset();  // in an earlier attempt of the job, which one log has as well
    }
  }

  WatchdogLogs finish() {
    const bool named = !groups_.empty();
    for (auto& [name, ranks] : groups_) {
      for (auto& [rank, state] : ranks) {
        if (state.waits_in) {
          waits_[{rank, *state.waits_in}].push_back(&state);
        }
      }
    }
    for (const auto& [key, caught] : caught_) {
      const auto& [rank, number] = key;
      if (number < 0) {
        WatchdogState& state = out_.without_number[rank];
        note_line(caught.row, state);
        add_caught(caught, state);
      } else if (!named) {
        add_unnamed(rank, number, caught);
      } else {
        add_operation(rank, number, caught);
      }
    }
    for (auto& [name, ranks] : groups_) {
      for (const auto& [rank, state] : ranks) {
        out_.ranks.insert(rank);
        if (state.waits_in) {
          out_.waiting.insert(rank);
        }
      }
      out_.groups.push_back({name, std::move(ranks)});
    }
    return std::move(out_);
  }

 private:
  /// Nothing names groups: all lines are taken for one group's. Of several calls of a rank the first one counts.
  void add_unnamed(int32_t rank, int64_t number, const Caught& caught) {
    WatchdogState& state = groups_[""][rank];
    state.enqueued = caught.report.enqueued ? caught.report.enqueued : state.enqueued;
    state.completed = caught.report.completed ? caught.report.completed : state.completed;
    if (state.waits_in && (*state.waits_in < number || caught.report.op.empty())) {
      return;
    }
    state.waits_in = number;
    note_line(caught.row, state);
    add_caught(caught, state);
  }

  /// The operation of the call belongs to the group in which this rank waits in a call of that number, if it is one.
  void add_operation(int32_t rank, int64_t number, const Caught& caught) {
    const auto states = waits_.find({rank, number});
    if (states != waits_.end() && states->second.size() == 1) {
      add_caught(caught, *states->second.front());
    }
  }

  std::map<std::string, std::map<int32_t, WatchdogState>> groups_;
  std::map<std::pair<int32_t, int64_t>, Caught> caught_;                      // by rank and number
  std::map<std::pair<int32_t, int64_t>, std::vector<WatchdogState*>> waits_;  // of `groups_`, likewise
  WatchdogLogs out_;
};

}  // namespace

Result<WatchdogLogs> read_watchdog_logs(EventSource& source) {
  Reader reader;
  ST_TRY(source.log_lines({}, [&](const LogLine& row) { reader.take(row); }));
  WatchdogLogs logs = reader.finish();
  ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
  for (const Node& node : nodes) {
    logs.node_names[node.node_id] = node.name;
  }
  return logs;
}

}  // namespace stalltrace::analysis
