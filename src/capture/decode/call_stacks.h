// SPDX-License-Identifier: Apache-2.0
// Where calls come from: the kernel side's stacks → rows of `stack`, each content once. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>

#include "capture/decode/code_names.h"
#include "model/events.h"
#include "wire/collective.h"

namespace stalltrace::capture {

class CallStacks {
 public:
  /// Both outlive it.
  CallStacks(const Procfs& procfs, EventSink& sink) : names_(procfs), sink_(sink) {}

  /// Delivers the stack's row unless one with the same content was. Of a process, the first 256 places count: a program
  /// that builds code as it runs has ever new ones.
  void note(const st_call_stack& record);
  /// The row of a place that was noted: its id is a hash of the text, the same on all nodes; 0 for any other.
  [[nodiscard]] int64_t id_of(pid_t pid, uint64_t place) const;
  void on_exit(pid_t pid) {
    processes_.erase(pid);
    names_.forget(pid);
  }

 private:
  CodeNames names_;
  EventSink& sink_;
  std::map<pid_t, std::map<uint64_t, int64_t>> processes_;  // by place
  std::set<int64_t> delivered_;
};

}  // namespace stalltrace::capture
