/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the profiler plugin's marker says, beside what its thread moved last. */
#ifndef STALLTRACE_WIRE_MARKER_H
#define STALLTRACE_WIRE_MARKER_H

#include "plugin/wire/marker.h"
#include "wire/header.h"

/* A thread's last transfer in one direction. */
struct st_last_transfer {
  __u64 cookie; /* of the socket; 0: none yet */
  __u64 moved;  /* bytes on it in this direction so far, this transfer included */
  __u64 time_ns;
};

/* Of header.tid, which called the marker. */
struct st_step_mark {
  struct st_header header;
  struct st_step_moved step;
  struct st_last_transfer last;
};

ST_STATIC_ASSERT(sizeof(struct st_last_transfer) == 24, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_step_mark) == 120, "wire layout");

#endif
