// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The watched threads: those of traced processes. Whoever first sees one begins to watch it.
#ifndef STALLTRACE_THREADS_H
#define STALLTRACE_THREADS_H

#include "maps.h"
#include "wire/scheduler.h"

struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct st_thread_time);
} threads SEC(".maps");

static __always_inline struct st_thread_time* watch_thread(struct task_struct* task, u64 now) {
  struct st_thread_time* thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (thread) {
    thread->tgid = task->tgid;
    thread->window_ns = now;
  }
  return thread;
}

#endif
