// SPDX-License-Identifier: Apache-2.0
// Waits that have not ended: a rank that hangs makes no more calls, so what its threads wait for is recorded while the
// wait lasts. One thread.
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
  /// References outlive the object.
  OpenWaits(BpfPrograms& kernel, const Node& node, EventSink& sink) : kernel_(kernel), node_(node), sink_(sink) {}

  /// Delivers what threads of `pids` have been waiting for since `at_least_ns` or longer, each wait once.
  Status deliver(const std::set<pid_t>& pids, uint64_t at_least_ns);

 private:
  BpfPrograms& kernel_;
  const Node& node_;
  EventSink& sink_;
  std::map<uint32_t, uint64_t> delivered_;  // by thread: the start of its wait
};

}  // namespace stalltrace::capture
