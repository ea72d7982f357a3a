// SPDX-License-Identifier: Apache-2.0
// What the running kernel allows tracing programs, tested with programs of a few instructions: a version number says
// little about a distribution's kernel with backports.
#pragma once

#include "capture/kernel/kernel_types.h"

namespace stalltrace::capture {

struct KernelFeatures {
  bool task_storage = false;    // storage at tasks, for tracing programs (Linux 5.12)
  bool socket_storage = false;  // storage at sockets and their cookies, for tracing programs (5.12)
  bool attach_cookie = false;   // a user-defined number with each probe (5.15)
  bool atomic_fetch = false;    // atomic operations that return the value (5.12)
  bool uprobe_multi = false;    // many user probes in one link (6.6)
  bool function_exits = false;  // programs at the exit of a kernel function (fexit: 5.5; arm64: 6.4)
  bool kernel_probes = false;   // kprobes (CONFIG_KPROBE_EVENTS)
};

/// Loads and drops the test programs. Needs the privilege of tracing; without it every feature counts as missing.
KernelFeatures probe_kernel_features(const KernelTypes& types);

}  // namespace stalltrace::capture
