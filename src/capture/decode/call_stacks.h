// SPDX-License-Identifier: Apache-2.0
// Call sites: the kernel side's stacks → rows of `stack`, one row for each content. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>

#include "capture/decode/code_names.h"
#include "capture/user_shares.h"
#include "model/events.h"
#include "wire/collective.h"

namespace stalltrace::capture {

class CallStacks {
 public:
  /// Both arguments must outlive the object.
  CallStacks(const Procfs& procfs, UserShares& shares, EventSink& sink)
      : names_(procfs), shares_(shares), sink_(sink) {}

  /// Delivers the stack's row unless an equal row was delivered. Only the first 256 call sites of a process are
  /// kept, since a program that generates code at run time has new ones forever; others are that user's loss.
  void note(const st_call_stack& record);
  /// The row id of a noted call site: a hash of the text, equal on all nodes. 0 for an unknown one.
  [[nodiscard]] int64_t id_of(pid_t pid, uint64_t call_site) const;
  void on_exit(pid_t pid) {
    processes_.erase(pid);
    names_.forget(pid);
  }

 private:
  CodeNames names_;
  UserShares& shares_;
  EventSink& sink_;
  std::map<pid_t, std::map<uint64_t, int64_t>> processes_;  // by call site
  std::set<int64_t> delivered_;
};

}  // namespace stalltrace::capture
