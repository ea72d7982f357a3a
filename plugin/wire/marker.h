/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's report to a tracer about a connection: the argument of its marker, a function that does nothing until a
 * tracer probes it. Plain C, fixed widths.
 *
 * NCCL does not report to the plugin which socket it uses. But it calls the plugin right after the transfer that
 * finished a step (a send's stopEvent, a receive's RecvFlushWait), on the same thread: the socket on which this thread
 * last moved bytes is the connection's, unless NCCL's socket helpers move the data. The tracer compares the counts with
 * the socket's own. Between two ranks NCCL makes one connection for each channel and direction for collectives and
 * another for Send and Recv (send[0] and send[1] of a channel's peer, in NCCL's src/enqueue.cc), so there is a count of
 * the step's kind, and one of every kind for connections that share a socket. */
#ifndef STALLTRACE_PLUGIN_MARKER_H
#define STALLTRACE_PLUGIN_MARKER_H

#include <linux/types.h>

/* The marker, and the 16-bit counter beside it that the kernel raises while the marker is probed. */
#define ST_MARKER_FUNCTION "stalltrace_step_moved"
#define ST_MARKER_SEMAPHORE "stalltrace_step_moved_semaphore"

/* Version of the structure below. The job's plugin may have another version than the tracer. */
#define ST_MARKER_VERSION 2u

/* A smaller step proves nothing about a socket, unless it was the only one under way: headers move some bytes as well.
 */
#define ST_MARKER_LEAST_BYTES 1024ull

enum st_step_kind {
  ST_STEP_COLLECTIVE = 0, /* also a step whose collective the plugin does not know */
  ST_STEP_P2P = 1,        /* Send, Recv, and operations made of them */
  ST_STEP_KINDS = 2,
};

/* Steps finished between two ranks on one channel in one direction, since they were first counted. */
struct st_step_count {
  __u64 steps;
  __u64 bytes;
};

struct st_step_moved {
  __u32 size; /* of this structure */
  __u32 version;
  __u64 comm_hash;          /* NCCL's own hash of the communicator */
  struct st_step_count own; /* steps of this kind, this step included */
  struct st_step_count all; /* steps of every kind */
  __u64 alone_since_ns; /* CLOCK_MONOTONIC; since then nothing else of this direction was under way on this thread, for
                           all of this step; 0: something was */
  __s32 rank;           /* in the communicator */
  __s32 ranks;
  __s32 peer;
  __u16 channel;
  __u8 is_send;
  __u8 kind; /* enum st_step_kind */
};

#ifdef __cplusplus
static_assert(sizeof(struct st_step_moved) == 72, "wire layout");
#else
_Static_assert(sizeof(struct st_step_moved) == 72, "wire layout");
#endif

#endif
