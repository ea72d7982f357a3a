// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// State of tasks. Storage at the task costs less than half of a hash table's look-up, almost nothing for tasks that
// have none, and is freed with the task. Tracing programs can use it from Linux 5.12 on. Before, the same state is in
// hash tables by number, and deleted when the thread or process ends.
#ifndef STALLTRACE_STATE_H
#define STALLTRACE_STATE_H

#include "maps.h"

#define ST_TASK_STATE(name, value_type)      \
  struct {                                   \
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE); \
    __uint(map_flags, BPF_F_NO_PREALLOC);    \
    __type(key, int);                        \
    __type(value, value_type);               \
  } name SEC(".maps")

#define ST_STATE_BY_NUMBER(name, value_type, entries) \
  struct {                                            \
    __uint(type, BPF_MAP_TYPE_HASH);                  \
    __uint(max_entries, entries);                     \
    __type(key, u32);                                 \
    __type(value, value_type);                        \
  } name SEC(".maps")

// The initial value of any state; some are too large for the stack.
#define ST_LARGEST_STATE 2048
const volatile __u8 no_state[ST_LARGEST_STATE] = {};

static __always_inline void* state_by_number(void* map, u32 number, bool make) {
  void* state = bpf_map_lookup_elem(map, &number);
  if (!state && make) {
    bpf_map_update_elem(map, &number, (const void*)no_state, BPF_NOEXIST);
    state = bpf_map_lookup_elem(map, &number);
  }
  return state;
}

// The state of a traced process, stored with its first task. The table is also a fallback where storage can't be made:
// the kernel refuses if it interrupted another allocation of storage on this CPU, and keeps only a few pieces of memory
// ready. A first call must not be lost for that.
ST_TASK_STATE(processes, struct st_process);
ST_STATE_BY_NUMBER(processes_by_tgid, struct st_process, ST_TRACED_THREADS);

static __always_inline struct st_process* process_of(struct task_struct* task, u32 tgid) {
  if (config.task_storage) {
    return bpf_task_storage_get(&processes, task->group_leader, 0, 0);
  }
  return state_by_number(&processes_by_tgid, tgid, false);
}

#endif
