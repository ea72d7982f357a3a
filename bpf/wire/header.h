/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What kernel and user space share, and nothing else: plain C, fixed widths, explicit padding.
 * Every record in a ring begins with st_header; type, version and size are checked before anything else is
 * read. Times are CLOCK_MONOTONIC nanoseconds (bpf_ktime_get_ns). Process and thread numbers are those of
 * the initial PID namespace.
 */
#ifndef STALLTRACE_WIRE_HEADER_H
#define STALLTRACE_WIRE_HEADER_H

#include <linux/types.h>

#ifdef __cplusplus
#define ST_STATIC_ASSERT static_assert
#else
#define ST_STATIC_ASSERT _Static_assert
#endif

#define ST_WIRE_VERSION 1
#define ST_COMM_LEN 16 /* a thread's name, NUL-terminated */

enum st_record_type {
  ST_RECORD_NONE = 0,
  ST_RECORD_CALL_ENTRY,
  ST_RECORD_CALL_RETURN,
  ST_RECORD_COMM_INIT,
  ST_RECORD_SYNC,
  ST_RECORD_TCP_EVENT,
  ST_RECORD_TCP_SAMPLE,
  ST_RECORD_NET_SPAN,
  ST_RECORD_SOCKET,
  ST_RECORD_WAIT,
  ST_RECORD_EXIT,
  ST_RECORD_PROCESS,
  ST_RECORD_STEP_MARK,
  ST_RECORD_OOM_KILL,
  ST_RECORD_CALL_STACK,
  ST_RECORD_REQUESTS_DONE,
  ST_RECORD_PYTHON_EXCEPTION,
  ST_RECORD_NCCL_IDENTITY,
  ST_RECORD_SOCKET_LISTING, /* what the iterators write is in no ring, but looks the same */
  ST_RECORD_THREAD_LISTING,
};

struct st_header {
  __u16 type; /* enum st_record_type */
  __u16 version;
  __u32 size; /* of the whole record, this header included */
  __u64 time_ns;
  __u32 tgid; /* the process the record belongs to: for a socket its owner, not the current task */
  __u32 tid;
};

/* Why a record was lost; an index into the `losses` map. */
enum st_loss_source {
  ST_LOSS_COLLECTIVE = 0,
  ST_LOSS_NETWORK,
  ST_LOSS_SCHEDULER,
  ST_LOSS_THREAD_STATE, /* no room to remember a call in flight */
  ST_LOSS_SOCKET_STATE,
  ST_LOSS_SEQUENCE,   /* no room to count a communicator's calls: its sequence numbers are wrong */
  ST_LOSS_DROPS,      /* no room to count dropped packets */
  ST_LOSS_CONNECTION, /* no room for a connection's addresses: its dropped packets are not counted */
  ST_LOSS_SCOPE,      /* no room to list a child of a listed process: neither it nor its children are traced */
  ST_LOSS_COUNT,
};
#define ST_RINGS 3 /* the first sources of losses are the rings */

/* The programs' shared state of a traced process (map `processes`). */
struct st_process {
  __u64 last_call_ns;     /* entry of its latest collective call, or of a later call that begins or ends a capture */
  __u64 last_net_ns;      /* latest byte sent or received over TCP, by any thread */
  __u64 last_nccl_net_ns; /* the same, by a thread whose name begins with "NCCL" */
  __u64 net_bytes;        /* sent and received over TCP since tracing began */
  __u64 cgroup_id;
  __u32 user;        /* whom it counts for, see user_of() in bpf/user_share.h */
  __u32 start_ticks; /* as in /proc/PID/stat: another process with its number has another; 0: not known */
  __u32 sequences;   /* its entries of the map `sequences` */
  __u32 padding;
};
#define ST_TICKS_PER_SECOND 100 /* of /proc (USER_HZ) */

/* ST_RECORD_PROCESS */
struct st_process_seen {
  struct st_header header;
  __u32 user; /* st_process.user */
  __u32 padding;
};

ST_STATIC_ASSERT(sizeof(struct st_process_seen) == 32, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_header) == 24, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_process) == 56, "wire layout");

#endif
