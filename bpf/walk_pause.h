// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Bounds what one read of an iterator takes. The kernel goes on until its reader's buffer is full, and a process may
// have a million open files of which none is listed: now and then a program fills the buffer with listings of no type,
// so that the reader can do something else, or stop.
#ifndef STALLTRACE_WALK_PAUSE_H
#define STALLTRACE_WALK_PAUSE_H

#include "state.h"

#define ST_WALK_PAUSE 4096  // objects: less than a millisecond
_Static_assert(ST_LISTINGS_BYTES <= ST_LARGEST_STATE, "no_state is what the buffer is filled with");

__u32 walked_objects = 0;  // of all walks: they are made one after the other

#define ST_PAUSE_WALK(ctx, listing)                                                           \
  do {                                                                                        \
    if (++walked_objects % ST_WALK_PAUSE == 0) {                                              \
      bpf_seq_write((ctx)->meta->seq, (const void*)no_state, ST_LISTINGS_OF(struct listing)); \
    }                                                                                         \
  } while (0)

#endif
