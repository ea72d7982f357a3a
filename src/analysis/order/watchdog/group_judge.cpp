// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/watchdog/group_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "analysis/thresholds/order.h"
#include "base/text.h"
#include "model/events/imported/torch_report.h"
#include "model/operation.h"

namespace stalltrace::analysis {
namespace {

/// Not every rank of the group makes these calls, so that their numbers differ between ranks. A batch of sends is
/// COALESCED without a size; collectives of several tensors have that of the first one.
bool of_some_ranks(const WatchdogState& state) {
  const std::string& op = state.op;
  return op.contains("SEND") || op.contains("RECV") || (op.contains("COALESCED") && !state.elements) || op == "UNKNOWN";
}

}  // namespace

WatchdogWaits GroupJudge::judge() {
  for (const auto& [rank, state] : group_.ranks) {
    if (state.waits_in) {
      first_ = first_ ? std::min(first_, state.waits_in) : state.waits_in;
      last_ = std::max(last_, state.waits_in);
    }
  }
  if (!first_) {
    return {};
  }
  if (std::ranges::any_of(group_.ranks, [](const auto& one) { return of_some_ranks(one.second); })) {
    note("calls between some ranks (send, recv) count here, so that numbers of ranks can't be compared");
    return not_compared();
  }
  WatchdogRanks in_first;
  WatchdogRanks in_later;
  WatchdogRanks past;  // the first call has ended there
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
  const int64_t lowest =
      away_.empty()
          ? *first_
          : *group_.ranks
                 .at(*std::ranges::min_element(away_, {}, [&](int32_t rank) { return group_.ranks.at(rank).enqueued; }))
                 .enqueued;
  if (*last_ - lowest > kMostCallsAhead) {
    note(group_.name.empty() ? "their calls are too far apart to be of one attempt of the job and one process group: "
                               "the lines name no group"
                             : "their calls are too far apart to be of one attempt of the job");
    return not_compared();
  }
  if (const auto different = judge_signatures(in_first)) {
    return *different ? WatchdogWaits{} : not_compared();
  }
  if (!away_.empty()) {
    WatchdogRanks came = in_first;
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
    return judge_stuck(in_first, past) ? WatchdogWaits{} : not_compared();
  }
  return {.ranks = in_first};
}

WatchdogWaits GroupJudge::not_compared(std::string why) const {
  WatchdogWaits waits{.why = std::move(why), .compared = false};
  for (const auto& [rank, state] : group_.ranks) {
    if (state.waits_in) {
      waits.ranks.push_back(rank);
    }
  }
  return waits;
}

/// "the last numbers of rank 0 are 9.0 s older than ...", "... have no time"
std::string GroupJudge::older_text(const WatchdogRanks& ranks, int64_t than_ns, std::string_view than_what) const {
  int64_t oldest_ns = 0;
  WatchdogRanks untimed;
  WatchdogRanks older;
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
std::string GroupJudge::leave_out_older(const WatchdogRanks& came) {
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
      older_.ranks.push_back(rank);
    }
    return old;
  });
  older_.text = older_.ranks.empty() ? "" : older_text(older_.ranks, *reported_ns, "the first report of a timeout");
  return older_.text;
}

/// Whether the ranks may have left the call since they printed their numbers; empty: they had not when it had ended
/// on the others.
std::string GroupJudge::older_than(const WatchdogRanks& stuck, const WatchdogRanks& past) const {
  std::optional<int64_t> past_ns;
  for (const int32_t rank : past) {
    const std::optional<int64_t> since_ns = group_.ranks.at(rank).ended_since_ns(*first_);
    past_ns = since_ns && past_ns ? std::min(since_ns, past_ns) : since_ns ? since_ns : past_ns;
  }
  if (!past_ns) {
    return fmt::format("the lines of {} have no time: how far the others were then is not known", ranks_text(past));
  }
  WatchdogRanks older;
  std::ranges::copy_if(stuck, std::back_inserter(older), [&](int32_t rank) {
    const std::optional<int64_t> stated_ns = group_.ranks.at(rank).stated_ns;
    return !stated_ns || *stated_ns < *past_ns - kStatementsApartNs;
  });
  return older.empty() ? "" : older_text(older, *past_ns, fmt::format("those of {}", ranks_text(past)));
}

void GroupJudge::note(std::string_view text) {
  out_.notes.push_back(
      fmt::format("{}: {}", group_.name.empty() ? "watchdog" : "watchdog, process group " + group_.name, text));
}

/// Ranks that wait under one number, but in different calls: whether that is a finding. None: they don't.
std::optional<bool> GroupJudge::judge_signatures(const WatchdogRanks& waiting) {
  using Signature = std::pair<std::string, std::optional<int64_t>>;
  std::map<Signature, WatchdogRanks> sides;
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
  std::vector<WatchdogRanks> by_size;
  for (auto& [signature, ranks] : sides) {
    by_size.push_back(ranks);
  }
  std::ranges::stable_sort(by_size, std::greater<>(), [](const WatchdogRanks& ranks) { return ranks.size(); });
  out_.findings.push_back(findings_.mismatched(*first_, waiting, by_size));
  return true;
}

/// Ranks that did not make the first call that did not end. False: all of them wait in other groups.
bool GroupJudge::judge_away(const WatchdogRanks& came) {
  WatchdogRanks to_blame;
  // Who does not wait here and waits, does so in another group.
  std::ranges::copy_if(away_, std::back_inserter(to_blame),
                       [&](int32_t rank) { return !logs_.waiting.contains(rank); });
  if (to_blame.empty()) {
    note(fmt::format("{} did not begin {}, but {} in a call of another group", ranks_text(away_),
                     findings_.call_text(*first_, came), away_.size() == 1 ? "waits" : "wait"));
    return false;
  }
  out_.findings.push_back(findings_.missing(*first_, came, to_blame, older_));
  return true;
}

/// All made the first call; on some it did not end, on others it did. False: that does not show who holds the others
/// up.
bool GroupJudge::judge_stuck(const WatchdogRanks& stuck, const WatchdogRanks& ahead) {
  if (stuck.size() >= ahead.size() && stuck.size() > 1) {
    note(fmt::format("{} wait in call {}, which ended on {}: which of them holds the others up is not known",
                     ranks_text(stuck), *first_, ranks_text(ahead)));
    return false;
  }
  out_.findings.push_back(findings_.stuck(*first_, *last_, stuck, ahead, older_));
  return true;
}

}  // namespace stalltrace::analysis
