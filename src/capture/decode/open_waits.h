// SPDX-License-Identifier: Apache-2.0
// Waits that have not ended: a hanging rank makes no more calls, so its threads' waits are recorded while they last.
// One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>

#include "base/result.h"
#include "capture/kernel/kernel.h"
#include "model/events.h"

namespace stalltrace::capture {

class OpenWaits {
 public:
  /// All references must outlive the object.
  OpenWaits(BpfPrograms& kernel, const Node& node, EventSink& sink) : kernel_(kernel), node_(node), sink_(sink) {}

  /// A look at the threads of a user's processes.
  struct Look {
    TaskListing listing;
    uint64_t at_least_ns = 0;  // length of a wait
    std::map<uint32_t, uint64_t> waiting = {};
  };
  /// Delivers waits that have lasted long enough, each wait once: until `until_ns` (CLOCK_MONOTONIC), by one step at
  /// least. Returns whether the look is complete.
  Result<bool> deliver(uint32_t user, Look& look, int64_t until_ns);

 private:
  BpfPrograms& kernel_;
  const Node& node_;
  EventSink& sink_;
  std::map<uint32_t, std::map<uint32_t, uint64_t>> delivered_;  // by user, by thread id: the start of the wait
};

}  // namespace stalltrace::capture
