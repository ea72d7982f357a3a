// SPDX-License-Identifier: Apache-2.0
// How many libraries of each user are probed: to attach and to detach probes takes the kernel 20 ms and more, on the
// thread that reads the rings. One thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/process/procfs.h"
#include "base/untrusted/untrusted_file.h"

namespace stalltrace::capture {

class ProbeShares {
 public:
  static constexpr size_t kMost = 64;  // libraries of a user at a time
  /// Attempts to attach probes, in vain or not: kMost at once, and one more in this time.
  static constexpr int64_t kAttemptNs = 10 * kNsPerSecond;
  using Detach = std::function<void()>;

  /// `procfs` must outlive the object.
  explicit ProbeShares(const Procfs& procfs) : procfs_(procfs) {}

  /// Whether one more library of this owner may be probed. Where there are as many as may be, the probes of one that no
  /// process maps any more are detached.
  bool has_room(uid_t owner, int64_t now_ns);
  /// An attempt begins.
  void count_attempt(uid_t owner, int64_t now_ns);
  /// A library is probed, because a process maps it.
  void add(uid_t owner, const FileIdentity& file, pid_t pid, Detach detach);
  /// Another process maps a library that is probed already.
  void add_user(uid_t owner, const FileIdentity& file, pid_t pid);

 private:
  struct Probed {
    std::set<pid_t> pids;
    size_t prune_at = 0;  // at this number of pids, those that have ended are forgotten
    Detach detach;
  };
  struct Share {
    std::map<FileIdentity, Probed> probed;
    int64_t budget_ns = static_cast<int64_t>(kMost) * kAttemptNs;  // an attempt takes kAttemptNs of it
    int64_t filled_ns = 0;                                         // CLOCK_MONOTONIC
  };
  void fill(Share& share, int64_t now_ns) const;
  void forget_ended(Probed& probed) const;

  const Procfs& procfs_;
  std::map<uid_t, Share> shares_;
};

}  // namespace stalltrace::capture
