// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/batches/steps.h"

#include <algorithm>
#include <span>
#include <vector>

#include "analysis/thresholds/stalls.h"
#include "base/numbers/period.h"

namespace stalltrace::analysis {
namespace {

struct CallToken {
  int64_t arrival_ns = 0;
  uint64_t what = 0;
  auto operator<=>(const CallToken&) const = default;
};

void add(const CallSequence& sequence, const Call& call, std::vector<CallToken>& out) {
  if (call.present) {
    const uint64_t what = uint64_t{sequence.group} << 17 | uint64_t{call.signature} << 1 | (sequence.receives ? 1 : 0);
    out.push_back({call.arrival_ns, what});
  }
}

}  // namespace

std::optional<int64_t> calls_in_step(const Timeline& timeline, MemberIndex member) {
  constexpr size_t kRepeats = 3;
  std::vector<CallToken> newest;
  for (const uint32_t index : timeline.sequences_of(member)) {
    const CallSequence& sequence = timeline.sequences()[index];
    const size_t taken = std::min(sequence.calls.size(), kCallsOfSteps);
    for (const Call& call : std::span(sequence.calls).last(taken)) {
      add(sequence, call, newest);
    }
  }
  std::ranges::sort(newest);
  // An evaluation among them is no step: then the calls since then may repeat.
  // A call that does not match, in which the job hangs, is the newest: then those before it may.
  for (size_t length = std::min(newest.size(), kCallsOfSteps); length >= kRepeats; length /= 2) {
    const std::span<const CallToken> all = std::span(newest).last(length);
    for (const std::span<const CallToken> part : {all, all.first(length - length / 4)}) {
      std::vector<uint64_t> text(part.size());
      std::ranges::transform(part, text.begin(), &CallToken::what);
      const size_t period = period_of<uint64_t>(text);
      if (kRepeats * period <= text.size()) {
        return static_cast<int64_t>(period);
      }
    }
  }
  return std::nullopt;
}

namespace {

std::optional<int64_t> find_settled_ns(const Timeline& timeline, MemberIndex member) {
  const std::optional<int64_t> calls = calls_in_step(timeline, member);
  if (!calls) {
    return std::nullopt;
  }
  const auto settling = static_cast<size_t>(kSettlingSteps * *calls);
  std::vector<CallToken> first;
  for (const uint32_t index : timeline.sequences_of(member)) {
    const CallSequence& sequence = timeline.sequences()[index];
    if (sequence.first_number() > 0 || timeline.groups()[sequence.group].hash == 0) {
      return std::nullopt;
    }
    const size_t taken = std::min(sequence.calls.size(), settling + 1);
    for (const Call& call : std::span(sequence.calls).first(taken)) {
      add(sequence, call, first);
    }
  }
  std::ranges::sort(first);
  if (first.size() <= settling) {
    return std::nullopt;
  }
  return std::min(first[settling].arrival_ns, first.front().arrival_ns + kSettlingLongestNs);
}

}  // namespace

std::optional<int64_t> Settling::calls_of_step(MemberIndex member) const {
  const auto [known, is_new] = calls_.try_emplace(member);
  if (is_new) {
    known->second = calls_in_step(timeline_, member);
  }
  return known->second;
}

std::optional<int64_t> Settling::settled_ns(MemberIndex member) const {
  const auto [entry, is_new] = known_.try_emplace(member);
  if (is_new) {
    entry->second = find_settled_ns(timeline_, member);
  }
  return entry->second;
}

}  // namespace stalltrace::analysis
