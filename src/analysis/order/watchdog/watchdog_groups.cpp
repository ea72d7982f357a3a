// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/watchdog/watchdog_groups.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "analysis/thresholds/order.h"
#include "base/clock.h"
#include "model/events/imported/process_report.h"
#include "model/events/imported/torch_report.h"
#include "model/events/imported/watchdog_report.h"
#include "model/operation.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostRanksCompared = 16'384;  // of a group, with each line that names none

/// A line that names the operation: "Watchdog caught collective operation timeout: ...", mostly without the group.
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

constexpr int64_t kLongestWaitMs = int64_t{100} * 86'400 * 1000;
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

/// True if they can't be one call, by what is known of both.
bool differ(const WatchdogState& state, const WatchdogReport& report) {
  if (state.op.empty() || report.op.empty()) {
    return false;
  }
  const bool sizes_differ = state.elements && report.elements && state.elements != report.elements;
  return state.op != report.op || (sizes_differ && needs_equal_sizes(operation_of_torch(state.op)));
}

class Reader {
 public:
  void take(const LogLine& row) {
    if (row.kind == LogKind::kWarning && row.rank) {
      const auto other = read_process_report(row.text);
      if (other && other->kind != ProcessReport::Kind::kEnded) {
        out_.ranks.insert(*row.rank);  // of its watchdog as well
      }
    }
    const auto report = row.kind == LogKind::kTimeout && row.rank ? read_watchdog_report(row.text) : std::nullopt;
    if (!report) {
      return;
    }
    out_.ranks.insert(*row.rank);
    if (report->unnumbered) {
      out_.waiting.insert(*row.rank);
      return;
    }
    if (report->group.empty() && report->asked) {
      return;  // of which group is not known
    }
    if (!report->group.empty()) {
      add_statement(row, *report, groups_[std::string(report->group)][*row.rank]);
    }
    if (report->group.empty() || !report->op.empty()) {
      keep_caught(row, *report);
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
    if (named) {
      index_groups();
      for (const auto& [key, caught] : caught_) {
        add_by_number(key.first, key.second, caught);
      }
    }
    for (auto& [name, ranks] : groups_) {
      for (const auto& [rank, state] : ranks) {
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

  /// Of several lines on one call the last one that does not repeat another counts.
  void keep_caught(const LogLine& row, const WatchdogReport& report) {
    const auto key = std::pair(*row.rank, report.waits_in.value_or(-1));
    if (report.repeats && caught_.contains(key)) {
      return;
    }
    caught_.insert_or_assign(key, Caught{row, {}});
    Caught& kept = caught_.at(key);
    kept.report = *read_watchdog_report(kept.row.text);  // its views are into the row that is kept
  }

  /// The operation of the call belongs to the group in which this rank waits in a call of that number: the one that the
  /// line names, else the only one.
  void add_operation(int32_t rank, int64_t number, const Caught& caught) {
    const auto states = waits_.find({rank, number});
    if (states == waits_.end()) {
      return;
    }
    if (!caught.report.group.empty()) {
      WatchdogState& own = groups_[std::string(caught.report.group)][rank];
      if (own.waits_in == number) {
        add_caught(caught, own);
      }
    } else if (states->second.size() == 1) {
      add_caught(caught, *states->second.front());
    }
  }

  /// A rank of which no line names a group waits all the same: in the only group that waits in that number at that
  /// time, where that waits in the same operation.
  void add_by_number(int32_t rank, int64_t number, const Caught& caught) {
    if (!caught.report.group.empty() || with_group_.contains(rank)) {
      return;
    }
    out_.waiting.insert(rank);
    const auto waiting = waiting_in_.find(number);
    if (waiting == waiting_in_.end() || waiting->second.size() > 1 ||
        (*waiting->second.begin())->size() > kMostRanksCompared) {
      return;
    }
    std::map<int32_t, WatchdogState>* const only = *waiting->second.begin();
    const bool unlike = std::ranges::any_of(*only, [&](const auto& one) {
      return one.second.waits_in == number && !one.second.group_by_number && differ(one.second, caught.report);
    });
    if (unlike || only->contains(rank)) {
      return;
    }
    const auto stated_ns =
        caught.report.repeats ? std::nullopt : time_in_watchdog_line(caught.row.text, caught.row.timestamp_ns);
    const int64_t waited_ns = std::min(caught.report.waited_ms.value_or(0), kLongestWaitMs) * kNsPerMs;
    const bool together = std::ranges::any_of(*only, [&](const auto& one) {
      const WatchdogState& other = one.second;
      return other.waits_in == number && (!stated_ns || !other.stated_ns ||
                                          std::abs(*stated_ns - *other.stated_ns) <= waited_ns + kStatementsApartNs);
    });
    if (!together) {
      return;  // another attempt of the job, or clocks that differ
    }
    WatchdogState& state = (*only)[rank];
    state.waits_in = number;
    state.group_by_number = true;
    note_line(caught.row, state);
    state.stated_ns = stated_ns;
    state.statements.push_back({state.stated_ns, number, caught.report.completed});
    add_caught(caught, state);
  }

  void index_groups() {
    for (auto& [name, ranks] : groups_) {
      for (const auto& [rank, state] : ranks) {
        with_group_.insert(rank);
        if (state.waits_in) {
          waiting_in_[*state.waits_in].insert(&ranks);
        }
      }
    }
  }

  std::map<std::string, std::map<int32_t, WatchdogState>> groups_;
  std::map<std::pair<int32_t, int64_t>, Caught> caught_;                       // by rank and number
  std::map<std::pair<int32_t, int64_t>, std::vector<WatchdogState*>> waits_;   // of `groups_`, likewise
  std::set<int32_t> with_group_;                                               // ranks of which a line names a group
  std::map<int64_t, std::set<std::map<int32_t, WatchdogState>*>> waiting_in_;  // by number, the groups that wait in it
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
  ST_ASSIGN(const std::vector<Communicator> communicators, source.communicators());
  for (const Communicator& row : communicators) {
    logs.world_size = std::max(logs.world_size, row.nranks.value_or(0));
  }
  return logs;
}

}  // namespace stalltrace::analysis
