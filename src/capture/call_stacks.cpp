// SPDX-License-Identifier: Apache-2.0
#include "capture/call_stacks.h"

#include <utility>

#include "base/hash.h"
#include "capture/code_names.h"

namespace stalltrace::capture {
namespace {

/// A program that builds code as it runs has ever new ones.
constexpr size_t kStacksOfAProcess = 256;

}  // namespace

CallStacks::CallStacks(Lookup lookup, const Procfs& procfs, EventSink& sink)
    : lookup_(std::move(lookup)), procfs_(procfs), sink_(sink) {}

std::optional<int64_t> CallStacks::id_of(pid_t pid, int32_t number, uint64_t return_address) {
  if (number < 0) {
    return std::nullopt;
  }
  auto& known = processes_[pid];
  const Place place{number, return_address};
  if (const auto found = known.find(place); found != known.end()) {
    return found->second;
  }
  return known.size() >= kStacksOfAProcess ? std::nullopt : known[place] = describe(pid, place);
}

std::optional<int64_t> CallStacks::describe(pid_t pid, Place place) {
  std::vector<uint64_t> addresses = lookup_(place.first);
  // The kernel walks frame pointers, which miss the caller of a function that has not set up its frame yet.
  if (!addresses.empty() && (addresses.size() == 1 || addresses[1] != place.second)) {
    addresses.insert(addresses.begin() + 1, place.second);
  }
  Stack stack{.frames = describe_frames(procfs_, pid, addresses)};
  if (stack.frames.empty()) {
    return std::nullopt;
  }
  stack.stack_id = static_cast<int64_t>(splitmix64_text(stack.frames) >> 1);  // positive, as ids are
  if (delivered_.insert(stack.stack_id).second) {
    sink_.accept(stack);
  }
  return stack.stack_id;
}

}  // namespace stalltrace::capture
