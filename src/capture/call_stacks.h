// SPDX-License-Identifier: Apache-2.0
// Where calls come from: the kernel side's numbers of stacks → rows of `stack`, each content once. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "capture/procfs.h"
#include "model/events.h"

namespace stalltrace::capture {

class CallStacks {
 public:
  /// The code addresses of a stack by its number; empty where there is none.
  using Lookup = std::function<std::vector<uint64_t>(int32_t number)>;

  /// `procfs` and `sink` outlive it.
  CallStacks(Lookup lookup, const Procfs& procfs, EventSink& sink);

  /// The id of the row with that stack of a call, which goes to the sink at first sight: a hash of its text, the same
  /// on all nodes. Nothing for a negative number, for a process that is gone, and beyond 256 stacks of one process.
  std::optional<int64_t> id_of(pid_t pid, int32_t number, uint64_t return_address);
  void on_exit(pid_t pid) { processes_.erase(pid); }

 private:
  using Place = std::pair<int32_t, uint64_t>;  // number, return address
  std::optional<int64_t> describe(pid_t pid, Place place);

  Lookup lookup_;
  const Procfs& procfs_;
  EventSink& sink_;
  std::map<pid_t, std::map<Place, std::optional<int64_t>>> processes_;
  std::set<int64_t> delivered_;
};

}  // namespace stalltrace::capture
