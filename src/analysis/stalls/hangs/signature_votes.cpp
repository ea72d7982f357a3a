// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/hangs/signature_votes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "analysis/stalls/hangs/open_calls.h"
#include "base/numbers/period.h"

namespace stalltrace::analysis {
namespace {

constexpr int64_t kMostInstancesSearched = 4096;  // for a mismatch; more calls are never in flight at once
constexpr size_t kMostInstancesOfHistory = 512;
constexpr size_t kMostCallsOfHistory = 1 << 16;
constexpr size_t kRepeats = 3;  // of what is called usual

/// Who entered what.
using Entered = std::map<uint16_t, std::vector<MemberIndex>>;

Entered entered_at(const Timeline& timeline, uint32_t group, int64_t number) {
  Entered entered;
  for (const uint32_t index : timeline.groups()[group].sequences) {
    const CallSequence& sequence = timeline.sequences()[index];
    if (const Call* call = sequence.call_at(number); call != nullptr) {
      const auto alike = std::ranges::find_if(entered, [&](const auto& other) {
        return agree(timeline.signature(other.first), timeline.signature(call->signature));
      });
      entered[alike == entered.end() ? call->signature : alike->first].push_back(sequence.member);
    }
  }
  return entered;
}

/// What all ranks of the group entered alike; none where one is missing, or they differ.
std::optional<uint16_t> entered_alike(const Timeline& timeline, const Group& group, int64_t number) {
  std::optional<uint16_t> alike;
  for (const uint32_t index : group.sequences) {
    const Call* call = timeline.sequences()[index].call_at(number);
    if (call == nullptr || (alike && !agree(timeline.signature(*alike), timeline.signature(call->signature)))) {
      return std::nullopt;
    }
    alike = alike.value_or(call->signature);
  }
  return alike;
}

/// The newest instances before a number that all ranks entered alike, without a gap.
struct History {
  std::vector<uint16_t> signatures;  // newest first
  int64_t newest = 0;                // the number of the first of them
};

History history_before(const Timeline& timeline, const Group& group, int64_t number) {
  const size_t most =
      std::min(kMostInstancesOfHistory, kMostCallsOfHistory / std::max<size_t>(1, group.sequences.size()));
  History history;
  for (size_t i = 0; i < most; ++i) {
    const int64_t before = number - 1 - static_cast<int64_t>(i);
    const std::optional<uint16_t> alike = entered_alike(timeline, group, before);
    if (alike && history.signatures.empty()) {
      history.newest = before;
    }
    if (alike) {
      history.signatures.push_back(*alike);
    } else if (!history.signatures.empty()) {
      break;
    }
  }
  return history;
}

/// Whether all ranks would have entered it at this number, had they gone on as before; none where that is not known.
std::optional<bool> is_as_before(const Timeline& timeline, const History& history, int64_t number, uint16_t signature) {
  const std::vector<uint16_t>& known = history.signatures;
  if (known.empty()) {
    return std::nullopt;
  }
  const auto same = [&](uint16_t other) { return agree(timeline.signature(other), timeline.signature(signature)); };
  const size_t period = period_of<uint16_t>(known);
  if (kRepeats * period <= known.size()) {
    const auto ahead = static_cast<size_t>(number - history.newest) % period;
    return same(known[ahead == 0 ? 0 : period - ahead]);
  }
  const auto times = static_cast<size_t>(std::ranges::count_if(known, same));
  return times == 0 || times >= kRepeats ? std::optional(times > 0) : std::nullopt;
}

/// True if all ranks of the group entered this instance and ended it.
bool all_ended(const Timeline& timeline, const Group& group, int64_t number) {
  return std::all_of(group.sequences.begin(), group.sequences.end(), [&](uint32_t index) {
    const Call* call = timeline.sequences()[index].call_at(number);
    return call != nullptr && call->end_ns() != kForever;
  });
}

}  // namespace

std::optional<SignatureVote> vote_on(const Timeline& timeline, uint32_t group, int64_t number) {
  const Entered entered = entered_at(timeline, group, number);
  if (entered.size() < 2) {
    return std::nullopt;
  }
  const auto most = std::max_element(entered.begin(), entered.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  SignatureVote vote{.group = group, .number = number, .usual = most->first};
  bool majority = true;
  for (const auto& [signature, members] : entered) {
    if (signature != most->first) {
      vote.odd = signature;
      majority = majority && members.size() < most->second.size();
      vote.odd_ones.insert(vote.odd_ones.end(), members.begin(), members.end());
    }
  }
  if (!majority) {
    vote.odd_ones.clear();
  }
  return vote;
}

void decide_by_history(const Timeline& timeline, SignatureVote& vote) {
  if (!vote.odd_ones.empty()) {
    return;
  }
  const History history = history_before(timeline, timeline.groups()[vote.group], vote.number);
  const Entered entered = entered_at(timeline, vote.group, vote.number);
  std::optional<uint16_t> usual;
  for (const auto& [signature, members] : entered) {
    const std::optional<bool> as_before = is_as_before(timeline, history, vote.number, signature);
    if (!as_before || (*as_before && usual)) {
      return;
    }
    usual = *as_before ? std::optional(signature) : usual;
  }
  // An operation that none of them entered before begins another phase: which rank is early or late for it is not
  // known.
  const auto begins_phase = [&](const auto& other) {
    const Operation op = timeline.signature(other.first).op;
    return op != timeline.signature(*usual).op &&
           std::ranges::none_of(history.signatures, [&](uint16_t known) { return timeline.signature(known).op == op; });
  };
  if (!usual || std::ranges::any_of(entered, begins_phase)) {
    return;
  }
  vote.usual = *usual;
  vote.by_history = true;
  for (const auto& [signature, members] : entered) {
    if (signature != *usual) {
      vote.odd = signature;
      vote.odd_ones.insert(vote.odd_ones.end(), members.begin(), members.end());
    }
  }
}

std::optional<SignatureVote> disagreement(const Timeline& timeline, uint32_t group_index) {
  const Group& group = timeline.groups()[group_index];
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = std::numeric_limits<int64_t>::min();
  bool open = false;
  for (const uint32_t index : group.sequences) {
    const CallSequence& sequence = timeline.sequences()[index];
    begin = std::min(begin, sequence.first_number());
    end = std::max(end, sequence.end_number());
    open = open || oldest_open(sequence).has_value();
  }
  if (group.hash == 0 || !open) {
    return std::nullopt;
  }
  std::optional<SignatureVote> found;
  for (int64_t number = end - 1; number >= std::max(begin, end - kMostInstancesSearched); --number) {
    if (std::optional<SignatureVote> vote = vote_on(timeline, group_index, number)) {
      found = std::move(vote);
    } else if (all_ended(timeline, group, number)) {
      break;  // they agreed and ended it: no earlier instance can hang them now
    }
  }
  if (found) {
    decide_by_history(timeline, *found);
  }
  return found;
}

}  // namespace stalltrace::analysis
