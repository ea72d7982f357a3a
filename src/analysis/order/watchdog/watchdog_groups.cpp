// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/watchdog/watchdog_groups.h"

#include <algorithm>
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

/// Kept for the comparison: a rank prints a few lines per timeout.
constexpr size_t kMostStatements = 256;

/// The counters of a process only rise: lower ones are those of the job's next attempt, in the same log.
void add_statement(const LogLine& row, const WatchdogReport& report, WatchdogState& state) {
  const auto stated_ns = report.repeats ? std::nullopt : time_in_watchdog_line(row.text, row.timestamp_ns);
  const bool known = state.waits_in || state.enqueued || state.completed;
  if (report.repeats && known) {
    return;
  }
  const bool older = stated_ns && state.stated_ns && *stated_ns < *state.stated_ns;  // of another file, read later
  if (!older && report.enqueued && state.enqueued && *report.enqueued < *state.enqueued) {
    state.statements.clear();
  }
  if (state.statements.size() < kMostStatements) {
    state.statements.push_back({stated_ns, report.waits_in, report.completed});
  }
  if (older) {
    return;
  }
  note_line(row, state);
  state.stated_ns = stated_ns;
  state.waits_in = report.waits_in ? report.waits_in : state.waits_in;
  state.enqueued = report.enqueued ? report.enqueued : state.enqueued;
  state.completed = report.completed ? report.completed : state.completed;
  const bool of_before =
      state.waits_in && state.enqueued && *state.enqueued < *state.waits_in;  // in an earlier attempt
  const bool ended = state.waits_in && state.completed && *state.completed >= *state.waits_in;
  if (of_before || ended) {
    state.waits_in.reset();
  }
}

std::optional<int64_t> earliest(const std::vector<WatchdogStatement>& statements, auto&& matches) {
  std::optional<int64_t> first_ns;
  for (const WatchdogStatement& one : statements) {
    if (one.stated_ns && matches(one)) {
      first_ns = std::min(first_ns.value_or(*one.stated_ns), *one.stated_ns);
    }
  }
  return first_ns;
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
      if (report->repeats && caught_.contains(key)) {
        return;
      }
      caught_.insert_or_assign(key, Caught{row, {}});
      Caught& kept = caught_.at(key);
      kept.report = *read_watchdog_report(kept.row.text);  // its views are into the row that is kept
      return;
    }
    add_statement(row, *report, groups_[std::string(report->group)][*row.rank]);
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
    state.stated_ns = time_in_watchdog_line(caught.row.text, caught.row.timestamp_ns);
    state.stated_ns = caught.report.repeats ? std::nullopt : state.stated_ns;
    state.statements.push_back({state.stated_ns, number, caught.report.completed});
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

std::optional<int64_t> WatchdogState::waited_since_ns(int64_t call) const {
  return earliest(statements, [&](const WatchdogStatement& one) { return one.waits_in && *one.waits_in >= call; });
}

std::optional<int64_t> WatchdogState::ended_since_ns(int64_t call) const {
  return earliest(statements, [&](const WatchdogStatement& one) {
    return (one.waits_in && *one.waits_in > call) || (one.completed && *one.completed >= call);
  });
}

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
