/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Set by user space before the programs are loaded; constant afterwards. */
#ifndef STALLTRACE_WIRE_CONFIG_H
#define STALLTRACE_WIRE_CONFIG_H

#include "wire/header.h"

/* Slots of the map `call_programs`. */
enum st_call_program {
  ST_CALL_PROGRAM_ENTRY = 0,
  ST_CALL_PROGRAM_RETURN,
  ST_CALL_PROGRAM_PYTHON,
  ST_CALL_PROGRAMS,
};

/* Entries of the tables that take the place of storage where a kernel has none: threads of traced processes, and their
 * sockets. */
#define ST_TRACED_THREADS 16384
#define ST_TRACED_SOCKETS 32768

struct st_config {
  __u32 only_netns;    /* trace only processes in this network namespace (its inode number); 0: all */
  __u32 only_listed;   /* trace only processes in the map `scope` and their descendants */
  __u64 span_gap_ns;   /* a silence longer than this ends a network span */
  __u64 span_max_ns;   /* a span is cut after this */
  __u64 sample_gap_ns; /* at most one connection sample per this time, or per eighth of it at a retransmission */
  __u64 long_wait_ns;  /* a wait at least this long is a record of its own */
  __u64 window_ns;     /* shorter waits are summed over this time ... */
  __u64 window_min_ns; /* ... and reported when a sum reaches this */
  __u32 wake_bytes;    /* wake user space when a ring holds this much */
  __u32 self_tgid;     /* never trace ourselves */
  /* Features of this kernel, tested by user space. The verifier removes code behind a 0. */
  __u32 task_storage;   /* storage at tasks for tracing programs (Linux 5.12); 0: hash tables by number */
  __u32 socket_storage; /* storage at sockets, and their cookies (5.12); 0: a hash table by address */
  __u32 attach_cookie;  /* bpf_get_attach_cookie (5.15); 0: a program before ours leaves the cookie in `call_cookie` */
  __u32 congestion_by_ack; /* tcp_cong_state_set (5.19) is missing: states are compared at every incoming segment */
  __u32 recvmsg_arguments; /* of tcp_recvmsg: 6 before Linux 5.19, 5 since; only where sock_recv_length is missing */
  __u32 most_sequences_of_process; /* entries of the map `sequences` */
  __u32 most_sequences_of_user;
  __u32 walks_all_tasks; /* iterators can't be narrowed to a process (6.1) */
};

ST_STATIC_ASSERT(sizeof(struct st_config) == 96, "wire layout");

#endif
