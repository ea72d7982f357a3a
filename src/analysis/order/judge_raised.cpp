// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/judge_raised.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analysis/evidence/raised_exceptions.h"
#include "analysis/order/processes/take_over.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"
#include "model/events/imported/logged_exception.h"
#include "model/events/imported/process_report.h"
#include "model/events/imported/watchdog_report.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kMostFailures = 10'000;
constexpr size_t kMostRaised = 4096;  // each is compared with each
constexpr size_t kMostTextsNamed = 4;

/// Where and when a line was printed.
struct Printed {
  int32_t rank = 0;
  std::string file;
  int64_t line = 0;
  std::optional<int64_t> since_ns;  // its own time, or that of an earlier line of the same rank in the file
  std::optional<int64_t> until_ns;  // likewise of a later one
};

enum class Order : uint8_t { kBefore, kAfter, kUnknown };

/// Lines of one file are in order. Others are where both have a time, by themselves or by lines around them, and not of
/// about one moment.
Order order_of(const Printed& a, const Printed& b) {
  if (a.file == b.file) {
    return a.line < b.line ? Order::kBefore : Order::kAfter;
  }
  const auto before = [](const Printed& first, const Printed& second) {
    return first.until_ns && second.since_ns && *second.since_ns - *first.until_ns > kStatementsApartNs;
  };
  return before(a, b) ? Order::kBefore : before(b, a) ? Order::kAfter : Order::kUnknown;
}

/// A line without a time of its own was printed between those before and after it.
void bound(Printed& line, const std::vector<Printed>& others) {
  const bool timed = line.since_ns.has_value();
  for (const Printed& other : others) {
    if (timed || other.file != line.file || other.rank != line.rank || !other.since_ns) {
      continue;
    }
    if (other.line < line.line) {
      line.since_ns = std::max(line.since_ns.value_or(*other.since_ns), *other.since_ns);
    } else {
      line.until_ns = std::min(line.until_ns.value_or(*other.since_ns), *other.since_ns);
    }
  }
}

/// PyTorch's watchdog reported that communication failed, not that it lasts.
bool is_error_of_nccl(const LogLine& row) {
  const auto report = row.kind == LogKind::kWarning ? read_process_report(row.text) : std::nullopt;
  return report && (report->kind == ProcessReport::Kind::kNcclError || report->kind == ProcessReport::Kind::kPeerGone);
}

struct Raised {
  Printed printed;
  NodeId node_id = 0;
  int32_t pid = 0;
  int64_t time_ns = 0;  // that is recorded, for the report
  RaisedException exception;
};

class Judge {
 public:
  Judge(EventSource& source, std::vector<Finding>& findings, std::vector<std::string>& notes)
      : source_(source), findings_(findings), notes_(notes) {}

  Status judge() {
    ST_TRY(read());
    // What a rank raises after its own communication failed follows from that.
    std::erase_if(raised_, [&](const Raised& one) {
      const auto own = failures_of_.find(one.printed.rank);
      return own != failures_of_.end() && std::ranges::any_of(own->second, [&](const Printed& failure) {
               return order_of(failure, one.printed) == Order::kBefore;
             });
    });
    if (raised_.empty()) {
      return {};
    }
    std::vector<const Raised*> firsts;
    for (const Raised& one : raised_) {
      const bool later = std::ranges::any_of(
          raised_, [&](const Raised& other) { return order_of(other.printed, one.printed) == Order::kBefore; });
      if (!later) {
        firsts.push_back(&one);
      }
    }
    if (firsts.empty()) {
      notes_.emplace_back(
          "which rank raised an exception first is not known: the times of the logs contradict their lines");
      return {};
    }
    const Raised& first = *firsts.front();
    size_t after = 0;
    size_t unordered = 0;
    std::set<int32_t> failed;
    for (const Printed& failure : failures_) {
      if (std::ranges::any_of(firsts, [&](const Raised* one) { return one->printed.rank == failure.rank; })) {
        continue;
      }
      const Order order = order_of(first.printed, failure);
      if (order == Order::kAfter) {
        notes_.push_back(
            fmt::format("rank {} raised {}, after communication of rank {} had failed: which follows from "
                        "which is not known",
                        first.printed.rank, first.exception.brief(), failure.rank));
        return {};
      }
      failed.insert(failure.rank);
      ++(order == Order::kBefore ? after : unordered);
    }
    add(firsts, failed, after, unordered);
    return {};
  }

 private:
  Status read() {
    ST_ASSIGN(const std::vector<Node> nodes, source_.nodes());
    for (const Node& node : nodes) {
      nodes_[node.node_id] = node;
    }
    std::map<std::tuple<NodeId, int32_t, int64_t>, Printed> headers;  // by process and time
    std::set<std::pair<NodeId, int32_t>> raising;
    std::vector<Printed> timed;
    ST_TRY(source_.log_lines({}, [&](const LogLine& row) {
      const bool failed = row.kind == LogKind::kTimeout || is_error_of_nccl(row);
      if (!row.rank || (row.kind != LogKind::kException && !failed)) {
        return;
      }
      const std::optional<int64_t> time_ns = time_in_watchdog_line(row.text, row.timestamp_ns);
      Printed printed{*row.rank, row.file, row.line, time_ns, time_ns};
      if (row.kind == LogKind::kException && row.text.find(kTracebackHeader) != std::string::npos) {
        headers.try_emplace({row.node_id, row.pid, row.timestamp_ns}, std::move(printed));
        raising.emplace(row.node_id, row.pid);
        return;
      }
      if (timed.size() == kMostFailures) {
        return;
      }
      timed.push_back(printed);
      if (failed || !raising.contains({row.node_id, row.pid})) {  // else it is what came next
        failures_of_[printed.rank].push_back(printed);
        failures_.push_back(std::move(printed));
      }
    }));
    std::vector<std::pair<PythonException, Printed>> found;
    int64_t left_out = 0;
    std::unordered_map<int64_t, std::string> tracebacks;
    ST_TRY(source_.python_exceptions({}, [&](const PythonException& row) {
      const auto header = headers.find({row.node_id, row.pid, row.timestamp_ns});
      left_out += header != headers.end() && found.size() == kMostRaised ? 1 : 0;
      if (header != headers.end() && row.pid == row.tid && found.size() < kMostRaised) {
        found.emplace_back(row, header->second);
        tracebacks[row.stack_id];
      }
    }));
    if (left_out > 0) {
      notes_.push_back(fmt::format("{} more logged exceptions than {} were not judged", left_out, kMostRaised));
    }
    if (found.empty()) {
      return {};
    }
    ST_ASSIGN(const std::vector<Stack> stacks, source_.stacks());
    for (const Stack& stack : stacks) {
      if (const auto wanted = tracebacks.find(stack.stack_id); wanted != tracebacks.end()) {
        wanted->second = stack.frames;
      }
    }
    for (auto& [row, printed] : found) {
      bound(printed, timed);
      RaisedException exception = RaisedException::of(row.type, tracebacks[row.stack_id]);
      raised_.push_back({std::move(printed), row.node_id, row.pid, row.timestamp_ns, std::move(exception)});
    }
    std::ranges::stable_sort(raised_, {}, [](const Raised& one) { return one.printed.rank; });
    return {};
  }

  [[nodiscard]] Culprit culprit(const Raised& one) const {
    const auto node = nodes_.find(one.node_id);
    const bool named = node != nodes_.end() && !lacks(node->second, kLacksPids);
    return {named ? node->second.name : "", one.printed.rank, named ? one.pid : 0};
  }

  /// "rank 1 raised ValueError in main (train.py:42); ranks 2 and 3 raised ..."
  static std::vector<std::pair<std::string, std::vector<int32_t>>> by_text(const std::vector<const Raised*>& raised) {
    std::vector<std::pair<std::string, std::vector<int32_t>>> folded;
    for (const Raised* one : raised) {
      const std::string text = one->exception.brief();
      auto known = std::ranges::find(folded, text, &std::pair<std::string, std::vector<int32_t>>::first);
      if (known == folded.end()) {
        known = folded.insert(known, {text, {}});
      }
      known->second.push_back(one->printed.rank);
    }
    return folded;
  }

  void add(const std::vector<const Raised*>& firsts, const std::set<int32_t>& failed, size_t after, size_t unordered) {
    const Raised& first = *firsts.front();
    const auto texts = by_text(firsts);
    Finding finding{.cause = Cause::kDeadRank, .severity = Severity::kCritical};
    finding.window = {first.time_ns, first.time_ns};
    const bool one_rank = std::ranges::all_of(
        firsts, [&](const Raised* one) { return one->printed.rank == first.printed.rank; });  // of several attempts
    if (one_rank) {
      finding.culprit = culprit(first);
    }
    finding.confidence = texts.size() > 1                  ? kSomeRanksConfidence
                         : firsts.size() > 1 || !unordered ? (after > 0 ? kOutsideConfidence : kStandingStillConfidence)
                                                           : kOrderAloneConfidence;
    std::vector<std::string> parts;
    for (size_t i = 0; i < std::min(texts.size(), kMostTextsNamed); ++i) {
      parts.push_back(fmt::format("{} raised {}", ranks_text(texts[i].second), texts[i].first));
    }
    const std::string others = failed.empty() ? "" : ranks_text({failed.begin(), failed.end()});
    finding.summary = fmt::format(
        "{}, which ended {}{}.", fmt::join(parts, "; "), one_rank ? "it" : "them",
        failed.empty() || unordered > 0 ? "" : fmt::format(": communication of {} failed afterwards", others));
    finding.summary[0] = 'R';
    for (size_t i = 0; i < std::min(firsts.size(), kMostTextsNamed); ++i) {
      const Raised& one = *firsts[i];
      finding.evidence.push_back({"python_exception",
                                  1,
                                  fmt::format("rank {} raised {}: {}, line {}", one.printed.rank, one.exception.text(),
                                              printable(one.printed.file), one.printed.line),
                                  {}});
    }
    if (const size_t later = raised_.size() - firsts.size(); later > 0) {
      finding.evidence.push_back(
          {"python_exception",
           static_cast<int64_t>(later),
           fmt::format("{} of other ranks followed", count_of(static_cast<int64_t>(later), "exception")),
           {}});
    }
    if (after > 0) {
      finding.evidence.push_back({"log_line",
                                  static_cast<int64_t>(after),
                                  fmt::format("reports of failed communication of {} come later", others),
                                  {}});
    }
    if (texts.size() > 1) {
      finding.evidence.push_back(
          {"log_line",
           0,
           "which of them raised first is not known: their lines are in different files without times",
           {}});
    }
    if (unordered > 0) {
      finding.evidence.push_back(
          {"log_line",
           static_cast<int64_t>(unordered),
           fmt::format("communication of {} failed; that it was later is not shown: the lines are in different files, "
                       "and have no times or about the same",
                       others),
           {}});
    }
    const std::string where = first.exception.location.empty() ? fmt::format("the log of rank {}", first.printed.rank)
                                                               : first.exception.location;
    finding.remedy = fmt::format("look at {}, which raised {}; its message is behind line {} of {}", where,
                                 first.exception.type, first.printed.line, printable(first.printed.file));
    std::set<int32_t> ranks;
    for (const Raised* one : firsts) {
      ranks.insert(one->printed.rank);
    }
    take_over_waiting(ranks, findings_, finding);
    findings_.insert(findings_.begin(), std::move(finding));
  }

  EventSource& source_;
  std::vector<Finding>& findings_;
  std::vector<std::string>& notes_;
  std::map<NodeId, Node> nodes_;
  std::vector<Raised> raised_;  // by rank
  std::vector<Printed> failures_;
  std::map<int32_t, std::vector<Printed>> failures_of_;
};

}  // namespace

Status add_raised(EventSource& source, std::vector<Finding>& findings, std::vector<std::string>& notes) {
  return Judge(source, findings, notes).judge();
}

}  // namespace stalltrace::analysis
