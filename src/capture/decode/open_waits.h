// SPDX-License-Identifier: Apache-2.0
// Waits that have not ended: a hanging rank makes no more calls, so its threads' waits are recorded while they last.
// One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>

#include "base/result.h"
#include "capture/kernel/bpf_programs.h"
#include "model/events.h"

namespace stalltrace::capture {

class OpenWaits {
 public:
  /// All references must outlive the object.
  OpenWaits(BpfPrograms& kernel, const Node& node, EventSink& sink) : kernel_(kernel), node_(node), sink_(sink) {}

  /// Delivers waits of the threads of `pids`, a user's processes, that have lasted at least `at_least_ns`, each wait
  /// once.
  Status deliver(uint32_t user, const std::set<pid_t>& pids, uint64_t at_least_ns);

 private:
  BpfPrograms& kernel_;
  const Node& node_;
  EventSink& sink_;
  std::map<uint32_t, std::map<uint32_t, uint64_t>> delivered_;  // by user, by thread id: the start of the wait
};

}  // namespace stalltrace::capture
