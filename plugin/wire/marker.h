/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin tells a tracer about a connection: the argument of its marker, a function that does nothing and waits
 * for somebody to probe it. Plain C, fixed widths.
 *
 * NCCL does not tell the plugin which socket it uses. But it calls the plugin right after the transfer that finished a
 * step (a send's stopEvent, a receive's RecvFlushWait), on the thread that made it: the socket this thread moved bytes
 * on last is the connection's, unless NCCL's socket helpers move the data. `steps` and `bytes` let the tracer hold the
 * socket's own count against it.
 */
#ifndef STALLTRACE_PLUGIN_MARKER_H
#define STALLTRACE_PLUGIN_MARKER_H

#include <linux/types.h>

/* The marker, and the 16-bit counter beside it that the kernel raises while somebody probes the marker. */
#define ST_MARKER_FUNCTION "stalltrace_step_moved"
#define ST_MARKER_SEMAPHORE "stalltrace_step_moved_semaphore"

struct st_step_moved {
  __u64 comm_hash;      /* NCCL's own hash of the communicator */
  __u64 steps;          /* finished on this connection since it was first counted, this one included */
  __u64 bytes;          /* in those steps */
  __u64 alone_since_ns; /* CLOCK_MONOTONIC; since then nothing else of this direction was under way on this thread, for
                           all of this step; 0: something was */
  __s32 rank;           /* in the communicator */
  __s32 ranks;
  __s32 peer;
  __u16 channel;
  __u16 is_send;
};

#ifdef __cplusplus
static_assert(sizeof(struct st_step_moved) == 48, "wire layout");
#else
_Static_assert(sizeof(struct st_step_moved) == 48, "wire layout");
#endif

#endif
