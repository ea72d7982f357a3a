/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Packets of traced connections that the host dropped, counted in the kernel; processes that it killed for memory. */
#ifndef STALLTRACE_WIRE_HOST_DROPS_H
#define STALLTRACE_WIRE_HOST_DROPS_H

#include "wire/header.h"

/* Reasons (enum skb_drop_reason) from this number on belong to subsystems with their own numbers. */
#define ST_DROP_REASONS 256

/* Value of the map `connections`, by addresses: a struct st_tuple whose netns is 0. */
struct st_connection {
  __u64 cookie;
  __u32 tgid;
  __u32 netns;
  __u32 user; /* st_process.user, of its owner */
  __u32 padding;
};

/* Key and value of the map `drops`. */
struct st_drop_key {
  __u64 cookie;
  __u32 netns; /* where they were dropped */
  __u16 reason;
  __u16 incoming; /* 1: on the way to the connection's owner */
};
struct st_drops {
  __u64 first_ns;
  __u64 last_ns;
  __u64 bytes; /* with headers */
  __u32 packets;
  __u32 tgid;
};

/* The kernel chose this process to be killed for lack of memory. */
struct st_oom_kill {
  struct st_header header;
};

ST_STATIC_ASSERT(sizeof(struct st_connection) == 24, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_drop_key) == 16, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_drops) == 32, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_oom_kill) == 24, "wire layout");

#endif
