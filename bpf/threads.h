// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The watched threads: those of traced processes. The first program that sees a thread begins to watch it.
#ifndef STALLTRACE_THREADS_H
#define STALLTRACE_THREADS_H

#include "user_share.h"
#include "wire/scheduler.h"

ST_TASK_STATE(threads, struct st_thread_time);
ST_STATE_BY_NUMBER(threads_by_tid, struct st_thread_time, ST_TRACED_THREADS);

static __always_inline struct st_thread_time* watch_thread(const struct st_process* process, struct task_struct* task,
                                                           u32 tid, u32 tgid, u64 now) {
  struct st_thread_time* thread = config.task_storage
                                      ? bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE)
                                      : state_by_number(&threads_by_tid, tid, true);
  if (thread) {
    thread->tgid = tgid;
    thread->user = process->user;
    thread->window_ns = now;
  }
  return thread;
}

#endif
