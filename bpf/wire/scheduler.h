/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Activities of traced processes' threads, summed in the kernel. */
#ifndef STALLTRACE_WIRE_SCHEDULER_H
#define STALLTRACE_WIRE_SCHEDULER_H

#include "wire/header.h"

/* stalltrace::WaitKind; src/capture/decode/wait_decoder_test.cpp checks that the values agree. */
enum st_wait_kind {
  ST_WAIT_RUNNABLE = 0,
  ST_WAIT_BLOCKED,
  ST_WAIT_DISK,
  ST_WAIT_STOPPED,
  ST_WAIT_ON_CPU,
  ST_WAIT_KINDS,
};

/* header.time_ns is the start; waited_ns of [start, end) was spent in this wait. count 1: a single wait. */
struct st_wait {
  struct st_header header;
  __u64 end_ns;
  __u64 waited_ns;
  __u64 by_waited_ns;
  __u32 count;
  __u32 by_tgid;
  __u16 kind;
  __u16 open;
  __u32 padding;
  char thread_name[ST_COMM_LEN];
  char by_name[ST_COMM_LEN];
};

struct st_exit {
  struct st_header header;
  __s32 exit_code;   /* task_struct.exit_code: signal in the low 7 bits, status << 8 */
  __u32 start_ticks; /* st_process.start_ticks */
  __u32 user;        /* st_process.user */
  __u32 padding;
};

struct st_wait_sum {
  __u64 waited_ns;
  __u32 count;
  __u32 padding;
};

/* Value of the map `threads`, stored with the task. Times of 0 mean "never" or "not now". */
struct st_thread_time {
  __u64 on_ns;     /* when it got the CPU last */
  __u64 off_ns;    /* when it lost it; 0 while it runs */
  __u64 window_ns; /* start of the summary window */
  __u32 tgid;
  __u32 off_kind; /* why it is off the CPU: ST_WAIT_RUNNABLE when preempted */
  struct st_wait_sum sums[ST_WAIT_KINDS];
  __u32 by_tgid;      /* the process that ran most while this thread was ready: a majority vote weighted by time */
  __u32 user;         /* st_process.user */
  __u64 by_weight_ns; /* the vote's lead */
  __u64 by_waited_ns; /* time counted for by_tgid since it became the candidate */
  char by_name[ST_COMM_LEN];
  char thread_name[ST_COMM_LEN];
};

/* The task iterator's record of a traced process's thread that is off the CPU, or could not be watched yet because no
 * memory was available for its state. */
#define ST_THREAD_UNWATCHED 0xff
struct st_thread_listing {
  struct st_header header; /* time_ns: now */
  __u64 off_ns;
  __u64 ready_ns; /* since when it could run; 0: it waits for something else */
  __u32 off_kind;
  __u32 padding;
  char thread_name[ST_COMM_LEN];
};

ST_STATIC_ASSERT(sizeof(struct st_wait) == 96, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_exit) == 40, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_wait_sum) == 16, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_thread_time) == 168, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_thread_listing) == 64, "wire layout");

#endif
