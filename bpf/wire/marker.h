/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The content of the profiler plugin's marker, with the last transfers of its thread. */
#ifndef STALLTRACE_WIRE_MARKER_H
#define STALLTRACE_WIRE_MARKER_H

#include "plugin/wire/marker.h"
#include "wire/header.h"

/* A thread's last transfer in one direction. */
struct st_last_transfer {
  __u64 cookie; /* of the socket; 0: none yet */
  __u64 moved;  /* bytes on it in this direction so far, including this transfer */
  __u64 time_ns;
};

/* A marker call by thread header.tid. */
struct st_step_mark {
  struct st_header header;
  struct st_step_moved step;
  struct st_last_transfer last;
};

ST_STATIC_ASSERT(sizeof(struct st_last_transfer) == 24, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_step_mark) == 120, "wire layout");

#endif
