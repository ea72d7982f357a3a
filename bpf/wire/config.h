/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Set by user space before the programs are loaded; constant afterwards. */
#ifndef STALLTRACE_WIRE_CONFIG_H
#define STALLTRACE_WIRE_CONFIG_H

#include "wire/header.h"

struct st_config {
  __u32 only_netns;    /* trace only processes in this network namespace (its inode number); 0: all */
  __u32 only_listed;   /* trace only processes in the map `scope` and their descendants */
  __u64 span_gap_ns;   /* a silence longer than this ends a network span */
  __u64 span_max_ns;   /* a span is cut after this */
  __u64 sample_gap_ns; /* at most one connection sample per this time, but for loss */
  __u64 long_wait_ns;  /* a wait at least this long is a record of its own */
  __u64 window_ns;     /* shorter waits are summed over this time ... */
  __u64 window_min_ns; /* ... and told when a sum reaches this */
  __u32 wake_bytes;    /* wake user space when a ring holds this much */
  __u32 self_tgid;     /* never trace ourselves */
};

#endif
