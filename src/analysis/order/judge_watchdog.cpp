// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/judge_watchdog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "analysis/advice.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"
#include "model/events/imported/torch_report.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kLongestQuote = 300;
constexpr size_t kMostFindings = 8;

using Ranks = std::vector<int32_t>;

/// All ranks of a group have to give the same number of elements.
bool needs_equal_sizes(Operation op) {
  return op == Operation::kAllReduce || op == Operation::kBroadcast || op == Operation::kReduce;
}

/// Not every rank of the group makes these calls, so that their numbers differ between ranks.
bool of_some_ranks(std::string_view op) {
  return op.find("SEND") != std::string_view::npos || op.find("RECV") != std::string_view::npos ||
         op.find("COALESCED") != std::string_view::npos || op == "UNKNOWN";
}

/// Of the ranks up to the highest one that wrote a line.
MissingRanks ranks_without_line(const WatchdogLogs& logs) {
  return {logs.ranks, logs.ranks.empty() ? 0 : *logs.ranks.rbegin() + 1};
}

/// What a group shows beside its finding.
struct Waits {
  Ranks ranks;           // that wait in the group, where it has no finding and is not held up
  std::string why;       // they can't be compared; empty: a note has it
  bool compared = true;  // they are in one call, and none is behind
  bool held_up = false;  // all that are behind wait in other groups
};

class GroupJudge {
 public:
  GroupJudge(const WatchdogLogs& logs, const WatchdogGroup& group, WatchdogVerdicts& out)
      : logs_(logs), group_(group), out_(out) {}

  Waits judge() {
    for (const auto& [rank, state] : group_.ranks) {
      if (state.waits_in) {
        first_ = first_ ? std::min(first_, state.waits_in) : state.waits_in;
        last_ = std::max(last_, state.waits_in);
      }
    }
    if (!first_) {
      return {};
    }
    if (std::ranges::any_of(group_.ranks, [](const auto& one) { return of_some_ranks(one.second.op); })) {
      note("calls between some ranks (send, recv) count here, so that numbers of ranks can't be compared");
      return not_compared();
    }
    Ranks in_first;
    Ranks in_later;
    Ranks past;  // the first call has ended there
    for (const auto& [rank, state] : group_.ranks) {
      if (state.is_past(*first_)) {
        past.push_back(rank);
      }
      if (state.waits_in ? state.waits_in == first_ : state.enqueued && *state.enqueued >= *first_) {
        in_first.push_back(rank);
      } else if (state.waits_in) {
        in_later.push_back(rank);
      } else if (state.enqueued) {
        away_.push_back(rank);
      }
    }
    const int64_t lowest = away_.empty()
                               ? *first_
                               : *group_.ranks
                                      .at(*std::ranges::min_element(
                                          away_, {}, [&](int32_t rank) { return group_.ranks.at(rank).enqueued; }))
                                      .enqueued;
    if (*last_ - lowest > kMostCallsAhead) {
      note("their calls are too far apart to be of one attempt of the job");
      return not_compared();
    }
    if (const auto different = judge_signatures(in_first)) {
      return *different ? Waits{} : not_compared();
    }
    if (!away_.empty()) {
      Ranks came = in_first;
      came.insert(came.end(), in_later.begin(), in_later.end());
      if (std::string why = leave_out_older(came); away_.empty()) {
        return not_compared(std::move(why));
      }
      return {.held_up = !judge_away(std::move(came))};
    }
    if (!past.empty()) {
      std::erase_if(in_first, [&](int32_t rank) { return group_.ranks.at(rank).is_past(*first_); });
      if (in_first.empty()) {
        return not_compared();
      }
      if (std::string why = older_than(in_first, past); !why.empty()) {
        return not_compared(std::move(why));
      }
      return judge_stuck(in_first, past) ? Waits{} : not_compared();
    }
    return {.ranks = in_first};
  }

  /// "call 4214 (ALLREDUCE of 16 elements) of process group 0(default_pg)"
  [[nodiscard]] std::string call_text(int64_t number, const Ranks& ranks) const {
    const WatchdogState* named = nullptr;
    for (const int32_t rank : ranks) {
      const WatchdogState& state = group_.ranks.at(rank);
      named = named == nullptr && state.waits_in == number && !state.op.empty() ? &state : named;
    }
    return fmt::format("call {}{}{}", number, named == nullptr ? "" : fmt::format(" ({})", signature_text(*named)),
                       group_.name.empty() ? "" : fmt::format(" of process group {}", group_.name));
  }

  Finding finding_of(Cause cause, double confidence, const Ranks& waiting) const {
    Finding finding{.cause = cause, .severity = Severity::kCritical, .confidence = confidence};
    finding.collectives_affected = 1;
    int64_t waited_ms = 0;
    int64_t until_ns = 0;
    for (const int32_t rank : waiting) {
      const WatchdogState& state = group_.ranks.at(rank);
      waited_ms = std::max(waited_ms, state.waited_ms.value_or(0));
      until_ns = std::max(until_ns, state.time_ns);
      finding.op = state.op.empty() ? finding.op : operation_of_torch(state.op);
    }
    constexpr int64_t kLongestMs = int64_t{100} * 86'400 * 1000;
    waited_ms = std::min(waited_ms, kLongestMs);
    finding.stall_ms = static_cast<double>(waited_ms);
    finding.window = {until_ns - waited_ms * kNsPerMs, until_ns};
    if (!waiting.empty()) {
      quote(waiting.front(), finding);
    }
    return finding;
  }

 private:
  [[nodiscard]] Waits not_compared(std::string why = {}) const {
    Waits waits{.why = std::move(why), .compared = false};
    for (const auto& [rank, state] : group_.ranks) {
      if (state.waits_in) {
        waits.ranks.push_back(rank);
      }
    }
    return waits;
  }

  /// "the last numbers of rank 0 are 9.0 s older than ...", "... have no time"
  [[nodiscard]] std::string older_text(const Ranks& ranks, int64_t than_ns, std::string_view than_what) const {
    int64_t oldest_ns = 0;
    Ranks untimed;
    Ranks older;
    for (const int32_t rank : ranks) {
      const std::optional<int64_t> stated_ns = group_.ranks.at(rank).stated_ns;
      (stated_ns ? older : untimed).push_back(rank);
      oldest_ns = std::max(oldest_ns, stated_ns ? than_ns - *stated_ns : 0);
    }
    std::vector<std::string> texts;
    if (!older.empty()) {
      texts.push_back(fmt::format("the last numbers of {} are {}{} older than {}", ranks_text(older),
                                  older.size() > 1 ? "up to " : "", format_duration(oldest_ns), than_what));
    }
    if (!untimed.empty()) {
      texts.push_back(fmt::format("the lines of {} have no time", ranks_text(untimed)));
    }
    return fmt::format("{}: how far {} then is not known", fmt::join(texts, ", "),
                       ranks.size() == 1 ? "it was" : "they were");
  }

  /// A rank that had not begun the call when it printed its numbers may have begun it since: leaves in `away_` those
  /// that printed them when another one had waited in it, or later. Returns a text on the others.
  std::string leave_out_older(const Ranks& came) {
    std::optional<int64_t> reported_ns;  // the first timeout in the call
    for (const int32_t rank : came) {
      const std::optional<int64_t> since_ns = group_.ranks.at(rank).waited_since_ns(*first_);
      reported_ns = since_ns && reported_ns ? std::min(since_ns, reported_ns) : since_ns ? since_ns : reported_ns;
    }
    if (!reported_ns) {
      away_.clear();
      return "the lines that report the timeout have no time: which rank was behind then is not known";
    }
    std::erase_if(away_, [&](int32_t rank) {
      const std::optional<int64_t> stated_ns = group_.ranks.at(rank).stated_ns;
      const bool old = !stated_ns || *stated_ns < *reported_ns - kStatementsApartNs;
      if (old) {
        older_.push_back(rank);
      }
      return old;
    });
    older_text_ = older_.empty() ? "" : older_text(older_, *reported_ns, "the first report of a timeout");
    return older_text_;
  }

  /// Whether the ranks may have left the call since they printed their numbers; empty: they had not when it had ended
  /// on the others.
  [[nodiscard]] std::string older_than(const Ranks& stuck, const Ranks& past) const {
    std::optional<int64_t> past_ns;
    for (const int32_t rank : past) {
      const std::optional<int64_t> since_ns = group_.ranks.at(rank).ended_since_ns(*first_);
      past_ns = since_ns && past_ns ? std::min(since_ns, past_ns) : since_ns ? since_ns : past_ns;
    }
    if (!past_ns) {
      return fmt::format("the lines of {} have no time: how far the others were then is not known", ranks_text(past));
    }
    Ranks older;
    std::ranges::copy_if(stuck, std::back_inserter(older), [&](int32_t rank) {
      const std::optional<int64_t> stated_ns = group_.ranks.at(rank).stated_ns;
      return !stated_ns || *stated_ns < *past_ns - kStatementsApartNs;
    });
    return older.empty() ? "" : older_text(older, *past_ns, fmt::format("those of {}", ranks_text(past)));
  }

  static std::string signature_text(const WatchdogState& state) {
    return state.elements ? fmt::format("{} of {}", state.op, count_of(*state.elements, "element")) : state.op;
  }

  void note(std::string_view text) {
    out_.notes.push_back(
        fmt::format("{}: {}", group_.name.empty() ? "watchdog" : "watchdog, process group " + group_.name, text));
  }

  void quote(int32_t rank, Finding& finding) const {
    finding.evidence.push_back({"log_line", 1, group_.ranks.at(rank).text.substr(0, kLongestQuote), {}});
  }

  [[nodiscard]] Culprit culprit(int32_t rank) const {
    const WatchdogState& state = group_.ranks.at(rank);
    Culprit who{"", rank, state.pid};
    const auto name = logs_.node_names.find(state.node_id);
    who.node = state.pid == 0 || name == logs_.node_names.end() ? "" : name->second;
    return who;
  }

  /// Without the group's name, or with ranks of which nothing is known, another one may be further behind.
  [[nodiscard]] double at_most(double confidence) const {
    const bool all_shown = ranks_without_line(logs_).empty() && older_.empty();
    return group_.name.empty() || !all_shown ? std::min(confidence, kSomeRanksConfidence) : confidence;
  }

  /// Ranks that wait under one number, but in different calls: whether that is a finding. None: they don't.
  std::optional<bool> judge_signatures(const Ranks& waiting) {
    using Signature = std::pair<std::string, std::optional<int64_t>>;
    std::map<Signature, Ranks> sides;
    for (const int32_t rank : waiting) {
      const WatchdogState& state = group_.ranks.at(rank);
      if (!state.op.empty()) {
        const bool equal = needs_equal_sizes(operation_of_torch(state.op));
        sides[{state.op, equal ? state.elements : std::nullopt}].push_back(rank);
      }
    }
    if (sides.size() < 2) {
      return std::nullopt;
    }
    if (group_.name.empty()) {  // the calls may be of two groups
      note("ranks wait in different calls of one number, but no line names the process group");
      return false;
    }
    std::vector<Ranks> by_size;
    for (auto& [signature, ranks] : sides) {
      by_size.push_back(ranks);
    }
    std::ranges::stable_sort(by_size, std::greater<>(), [](const Ranks& ranks) { return ranks.size(); });
    Finding finding = finding_of(Cause::kMismatchedCollective, kLeftConfidence, waiting);
    const bool odd = by_size.size() == 2 && by_size[1].size() == 1 && by_size[0].size() > 1;
    if (odd) {
      finding.culprit = culprit(by_size[1].front());
      quote(by_size[1].front(), finding);
    }
    constexpr size_t kSidesNamed = 3;
    std::vector<std::string> texts;
    for (size_t i = 0; i < std::min(by_size.size(), kSidesNamed); ++i) {
      texts.push_back(
          fmt::format("{} {}", ranks_text(by_size[i]), signature_text(group_.ranks.at(by_size[i].front()))));
    }
    finding.summary = fmt::format("Ranks entered different collectives as call {} of process group {}: {}.", *first_,
                                  group_.name, fmt::join(texts, "; "));
    finding.remedy =
        "compare the code of these ranks: shapes and types that depend on the rank or on its data, a collective that "
        "one rank skipped or made twice just before";
    out_.findings.push_back(std::move(finding));
    return true;
  }

  /// Ranks that did not make the first call that did not end. False: all of them wait in other groups.
  bool judge_away(const Ranks& came) {
    const std::string call = call_text(*first_, came);
    Ranks to_blame;
    // Who does not wait here and waits, does so in another group.
    std::ranges::copy_if(away_, std::back_inserter(to_blame),
                         [&](int32_t rank) { return !logs_.waiting.contains(rank); });
    if (to_blame.empty()) {
      note(fmt::format("{} did not begin {}, but {} in a call of another group", ranks_text(away_), call,
                       away_.size() == 1 ? "waits" : "wait"));
      return false;
    }
    const bool outside = std::ranges::all_of(to_blame, [&](int32_t rank) { return group_.ranks.at(rank).outside(); });
    const bool minority = to_blame.size() < came.size() || (to_blame.size() == 1 && came.size() == 1);
    Ranks waiting;
    std::ranges::copy_if(came, std::back_inserter(waiting),
                         [&](int32_t rank) { return group_.ranks.at(rank).waits_in.has_value(); });
    Finding finding = finding_of(Cause::kMissingCollective,
                                 at_most(outside ? kOutsideConfidence : kStandingStillConfidence), waiting);
    const Ranks& blamed = minority ? to_blame : came;
    if (blamed.size() == 1) {
      finding.culprit = culprit(blamed.front());
    }
    quote(to_blame.front(), finding);
    finding.summary = minority
                          ? fmt::format("{} did not begin {}, in which {} waited until PyTorch's watchdog reported it.",
                                        ranks_text(to_blame), call, ranks_text(came))
                          : fmt::format("{} began {}, the others ({}) did not; PyTorch's watchdog reported it.",
                                        ranks_text(came), call, ranks_text(to_blame));
    finding.summary[0] = 'R';
    if (!outside) {
      finding.evidence.push_back({"log_line",
                                  std::ssize(to_blame),
                                  fmt::format("an earlier call of {} had not ended, either", ranks_text(to_blame)),
                                  {}});
    }
    finding.evidence.push_back(
        {"log_line",
         0,
         "PyTorch counts a call when NCCL's function has returned: a rank that stands inside of it looks the same",
         {}});
    if (!older_.empty()) {
      finding.evidence.push_back({"log_line", std::ssize(older_), older_text_, {}});
    }
    finding.remedy = minority ? look_at_absent(ranks_text(to_blame)) : std::string(kLookForUnevenCalls);
    out_.findings.push_back(std::move(finding));
    return true;
  }

  /// All made the first call; on some it did not end, on others it did. False: that does not show who holds the others
  /// up.
  bool judge_stuck(const Ranks& stuck, const Ranks& ahead) {
    if (stuck.size() >= ahead.size() && stuck.size() > 1) {
      note(fmt::format("{} wait in call {}, which ended on {}: which of them holds the others up is not known",
                       ranks_text(stuck), *first_, ranks_text(ahead)));
      return false;
    }
    Finding finding = finding_of(Cause::kUnknown, at_most(kStandingStillConfidence), stuck);
    if (stuck.size() == 1) {
      finding.culprit = culprit(stuck.front());
    }
    quote(ahead.front(), finding);
    const bool all_wait =
        std::ranges::all_of(ahead, [&](int32_t rank) { return group_.ranks.at(rank).waits_in.has_value(); });
    finding.summary =
        fmt::format("{} did not end {}, which ended on {}{}.", ranks_text(stuck), call_text(*first_, stuck),
                    ranks_text(ahead), all_wait ? fmt::format(": these wait in call {}", *last_) : "");
    finding.summary[0] = 'R';
    finding.remedy = fmt::format(
        "look at the GPU of {} (dmesg: Xid; nvidia-smi -q) and at its links; the cause was not recorded: run the job "
        "with stalltrace run, or with NCCL_DEBUG=INFO",
        ranks_text(stuck));
    out_.findings.push_back(std::move(finding));
    return true;
  }

  const WatchdogLogs& logs_;
  const WatchdogGroup& group_;
  WatchdogVerdicts& out_;
  std::optional<int64_t> first_;  // the lowest call that a rank waits in
  std::optional<int64_t> last_;
  Ranks away_;
  Ranks older_;  // behind, but by numbers of before the timeout
  std::string older_text_;
};

/// The logs do not show who is behind: the job hung all the same.
void add_all_wait(const WatchdogLogs& logs, const WatchdogGroup& group, const Waits& waits, WatchdogVerdicts& out) {
  const GroupJudge judge(logs, group, out);
  const Ranks& ranks = waits.ranks;
  Finding finding = judge.finding_of(Cause::kUnknown, kSomeRanksConfidence, ranks);
  const auto waiting =
      std::ranges::find_if(ranks, [&](int32_t rank) { return group.ranks.at(rank).waits_in.has_value(); });
  const int64_t number = *group.ranks.at(*waiting).waits_in;
  finding.summary =
      waits.compared ? fmt::format("{} waited in {} until PyTorch's watchdog reported it; none of them is behind.",
                                   ranks_text(ranks), judge.call_text(number, ranks))
                     : fmt::format(
                           "{} waited in collectives until PyTorch's watchdog reported it; which rank is behind is not "
                           "known.",
                           ranks_text(ranks));
  finding.summary[0] = 'R';
  if (!waits.why.empty()) {
    finding.evidence.push_back({"log_line", 0, waits.why, {}});
  }
  const MissingRanks missing = ranks_without_line(logs);
  if (!missing.empty()) {
    finding.evidence.push_back(
        {"log_line", 0, fmt::format("no line of the watchdog of {}: the cause may be there", missing.text()), {}});
  }
  finding.remedy =
      "give the logs of all ranks; if all wait, look at the transfer: links, NICs and GPUs of these ranks (dmesg: "
      "Xid). "
      "The cause was not recorded: run the job with stalltrace run, or with NCCL_DEBUG=INFO";
  out.findings.push_back(std::move(finding));
}

/// Each group lacks ranks that wait in another one.
void add_crossed(const WatchdogLogs& logs, const std::vector<const WatchdogGroup*>& groups, WatchdogVerdicts& out) {
  Ranks waiting;
  for (const auto& [rank, state] : groups.front()->ranks) {
    if (state.waits_in) {
      waiting.push_back(rank);
    }
  }
  Finding finding =
      GroupJudge(logs, *groups.front(), out).finding_of(Cause::kMissingCollective, kSomeRanksConfidence, waiting);
  finding.summary =
      fmt::format("Ranks wait for each other in calls of {}: each of these calls lacks ranks that wait in another one.",
                  count_of(std::ssize(groups), "process group"));
  finding.remedy =
      "compare in which order these ranks call collectives of these process groups: it has to be the same on all of "
      "them";
  out.findings.push_back(std::move(finding));
}

/// A rank that is behind is so in each of its groups.
void join_of_one_rank(std::vector<Finding>& findings) {
  std::vector<Finding> kept;
  for (Finding& finding : findings) {
    const auto same = std::ranges::find_if(kept, [&](const Finding& one) {
      return one.cause == finding.cause && one.culprit && finding.culprit && one.culprit->rank == finding.culprit->rank;
    });
    if (same == kept.end()) {
      kept.push_back(std::move(finding));
    } else {
      same->evidence.push_back({"log_line", 1, finding.summary, {}});
    }
  }
  findings = std::move(kept);
}

}  // namespace

WatchdogVerdicts judge_watchdog(const WatchdogLogs& logs) {
  WatchdogVerdicts out;
  std::pair<const WatchdogGroup*, Waits> largest{nullptr, {}};
  std::vector<const WatchdogGroup*> held_up;
  int64_t waiting_groups = 0;
  for (const WatchdogGroup& group : logs.groups) {
    Waits waits = GroupJudge(logs, group, out).judge();
    if (waits.held_up) {
      held_up.push_back(&group);
    }
    waiting_groups += waits.ranks.empty() ? 0 : 1;
    if (waits.ranks.size() > largest.second.ranks.size()) {
      largest = {&group, std::move(waits)};
    }
  }
  if (!out.findings.empty()) {
    join_of_one_rank(out.findings);
    out.findings.resize(std::min(out.findings.size(), kMostFindings));
    return out;
  }
  if (largest.first != nullptr) {
    add_all_wait(logs, *largest.first, largest.second, out);
    if (waiting_groups > 1) {
      out.findings.back().evidence.push_back(
          {"log_line",
           waiting_groups,
           fmt::format("{} have calls that did not end", count_of(waiting_groups, "process group")),
           {}});
    }
  } else if (!held_up.empty()) {
    add_crossed(logs, held_up, out);
  } else if (!logs.without_number.empty()) {
    WatchdogGroup unnamed;
    Ranks ranks;
    for (const auto& [rank, state] : logs.without_number) {
      unnamed.ranks.emplace(rank, state);
      ranks.push_back(rank);
    }
    Finding finding = GroupJudge(logs, unnamed, out).finding_of(Cause::kUnknown, kSomeRanksConfidence, ranks);
    finding.summary = fmt::format("{} waited in a collective until PyTorch's watchdog reported it.", ranks_text(ranks));
    finding.summary[0] = 'R';
    finding.remedy =
        "this version's lines have no numbers of calls: run the job with stalltrace run, or with NCCL_DEBUG=INFO and "
        "NCCL_DEBUG_SUBSYS=INIT,COLL";
    out.findings.push_back(std::move(finding));
  }
  return out;
}

}  // namespace stalltrace::analysis
