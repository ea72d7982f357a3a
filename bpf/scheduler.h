// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What threads of traced processes wait for, and who ran instead; ends of processes. Every context switch of the host
// passes through here, so a task that is not traced must cost one hash look-up and nothing more.
#ifndef STALLTRACE_SCHEDULER_H
#define STALLTRACE_SCHEDULER_H

#include "collective.h"
#include "maps.h"
#include "wire/scheduler.h"

/* include/linux/sched.h: TASK_IDLE is TASK_UNINTERRUPTIBLE | TASK_NOLOAD, a sleep that is nobody's disk. */
#define TASK_NOLOAD_BIT 0x400
#define TASK_DEAD_BIT 0x80

struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 32768);
  __type(key, u32);  // tid
  __type(value, struct st_thread_time);
} threads SEC(".maps");

// task_struct.__state was called `state` before Linux 5.14.
struct task_struct___before_5_14 {
  volatile long state;
} __attribute__((preserve_access_index));
struct task_struct___since_5_14 {
  unsigned int __state;
} __attribute__((preserve_access_index));

static __always_inline u64 state_of(struct task_struct* task) {
  if (bpf_core_field_exists(((struct task_struct___since_5_14*)0)->__state)) {
    return ((struct task_struct___since_5_14*)task)->__state;
  }
  return ((struct task_struct___before_5_14*)task)->state;
}

static __always_inline u32 wait_kind_of(u64 state, bool preempted) {
  if (preempted || state == 0) {
    return ST_WAIT_RUNNABLE;
  }
  if (state & (TASK_STOPPED_BIT | TASK_TRACED_BIT)) {
    return ST_WAIT_STOPPED;
  }
  if ((state & TASK_UNINTERRUPTIBLE) && !(state & TASK_NOLOAD_BIT)) {
    return ST_WAIT_DISK;
  }
  return ST_WAIT_BLOCKED;
}

static __always_inline void emit_wait(const struct st_thread_time* thread, u32 tid, u32 kind, u64 from, u64 to,
                                      u64 waited, u32 count, u32 by_tgid, const char* by_name, u64 by_waited) {
  struct st_wait* record = bpf_ringbuf_reserve(&scheduler_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_SCHEDULER);
    return;
  }
  fill_header(&record->header, ST_RECORD_WAIT, sizeof(*record), from, thread->tgid, tid);
  record->end_ns = to;
  record->waited_ns = waited;
  record->by_waited_ns = by_waited;
  record->count = count;
  record->by_tgid = by_tgid;
  record->kind = kind;
  record->open = 0;
  record->padding = 0;
  __builtin_memcpy(record->thread_name, thread->thread_name, sizeof(record->thread_name));
  __builtin_memcpy(record->by_name, by_name, sizeof(record->by_name));
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&scheduler_ring));
}

// Tells the sums of the window that ends at `to`, and begins another.
static __always_inline void flush_window(struct st_thread_time* thread, u32 tid, u64 to) {
  const char nobody[ST_COMM_LEN] = {};
  for (u32 kind = 0; kind < ST_WAIT_KINDS; kind++) {
    struct st_wait_sum* sum = &thread->sums[kind];
    if (sum->waited_ns >= config.window_min_ns) {
      if (kind == ST_WAIT_RUNNABLE) {
        emit_wait(thread, tid, kind, thread->window_ns, to, sum->waited_ns, sum->count, thread->by_tgid,
                  thread->by_name, thread->by_waited_ns);
      } else {
        emit_wait(thread, tid, kind, thread->window_ns, to, sum->waited_ns, sum->count, 0, nobody, 0);
      }
    }
    sum->waited_ns = 0;
    sum->count = 0;
  }
  thread->by_tgid = 0;
  thread->by_weight_ns = 0;
  thread->by_waited_ns = 0;
  __builtin_memset(thread->by_name, 0, sizeof(thread->by_name));
  thread->window_ns = to;
}

static __always_inline void add_time(struct st_thread_time* thread, u32 tid, u32 kind, u64 from, u64 to, u32 by_tgid,
                                     const char* by_name) {
  if (kind >= ST_WAIT_KINDS || to <= from) {
    return;
  }
  const u64 waited = to - from;
  if (waited >= config.long_wait_ns) {
    flush_window(thread, tid, from);
    emit_wait(thread, tid, kind, from, to, waited, 1, by_tgid, by_name, by_tgid ? waited : 0);
    thread->window_ns = to;
    return;
  }
  thread->sums[kind].waited_ns += waited;
  thread->sums[kind].count += 1;
  if (kind != ST_WAIT_RUNNABLE || by_tgid == 0) {
    return;
  }
  // Boyer and Moore's majority vote, weighted by time: one slot suffices to name who ran more than half of it.
  if (thread->by_tgid == by_tgid) {
    thread->by_weight_ns += waited;
    thread->by_waited_ns += waited;
  } else if (thread->by_weight_ns >= waited) {
    thread->by_weight_ns -= waited;
  } else {
    thread->by_tgid = by_tgid;
    thread->by_weight_ns = waited - thread->by_weight_ns;
    thread->by_waited_ns = waited;
    __builtin_memcpy(thread->by_name, by_name, sizeof(thread->by_name));
  }
}

static __always_inline void leaves_cpu(struct task_struct* task, bool preempted, u64 now) {
  const u32 tid = task->pid;
  const u32 tgid = task->tgid;
  struct st_thread_time* thread = bpf_map_lookup_elem(&threads, &tid);
  if (!thread || thread->tgid != tgid) {  // new, or the number of a thread that is gone
    struct st_thread_time fresh = {};
    fresh.tgid = tgid;
    fresh.window_ns = now;
    bpf_map_update_elem(&threads, &tid, &fresh, BPF_ANY);
    thread = bpf_map_lookup_elem(&threads, &tid);
    if (!thread) {
      count_loss(ST_LOSS_THREAD_STATE);
      return;
    }
  }
  const bool window_over = now - thread->window_ns >= config.window_ns;
  if (window_over || !thread->thread_name[0]) {  // a thread may name itself after its start
    bpf_probe_read_kernel(thread->thread_name, sizeof(thread->thread_name), task->comm);
  }
  if (thread->on_ns) {
    const char nobody[ST_COMM_LEN] = {};
    add_time(thread, tid, ST_WAIT_ON_CPU, thread->on_ns, now, 0, nobody);
    thread->on_ns = 0;
  }
  const u64 state = state_of(task);
  if (window_over || (state & TASK_DEAD_BIT)) {
    flush_window(thread, tid, now);
  }
  if (state & TASK_DEAD_BIT) {  // it will not come back, and its number may be given to another thread
    bpf_map_delete_elem(&threads, &tid);
    return;
  }
  thread->off_ns = now;
  thread->off_kind = wait_kind_of(state, preempted);
  thread->runnable_ns = thread->off_kind == ST_WAIT_RUNNABLE ? now : 0;
}

static __always_inline void gets_cpu(struct task_struct* task, struct task_struct* previous, u64 now) {
  const u32 tid = task->pid;
  struct st_thread_time* thread = bpf_map_lookup_elem(&threads, &tid);
  if (!thread || thread->tgid != (u32)task->tgid) {
    return;  // known from when it first leaves the CPU
  }
  if (thread->off_ns) {
    char name[ST_COMM_LEN] = {};
    const u32 by_tgid = previous->tgid;
    if (thread->off_kind != ST_WAIT_RUNNABLE) {
      const u64 ready = thread->runnable_ns ? thread->runnable_ns : now;
      add_time(thread, tid, thread->off_kind, thread->off_ns, ready, 0, name);
    }
    if (thread->runnable_ns) {
      bpf_probe_read_kernel(name, sizeof(name), previous->comm);
      add_time(thread, tid, ST_WAIT_RUNNABLE, thread->runnable_ns, now, by_tgid, name);
    }
  }
  thread->on_ns = now;
  thread->off_ns = 0;
  thread->runnable_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct* prev, struct task_struct* next) {
  const u32 prev_tgid = prev->tgid;
  const u32 next_tgid = next->tgid;
  const bool prev_traced = prev_tgid && bpf_map_lookup_elem(&processes, &prev_tgid);
  const bool next_traced = next_tgid && bpf_map_lookup_elem(&processes, &next_tgid);
  if (!prev_traced && !next_traced) {
    return 0;
  }
  const u64 now = bpf_ktime_get_ns();
  if (prev_traced) {
    leaves_cpu(prev, preempt, now);
  }
  if (next_traced) {
    gets_cpu(next, prev, now);
  }
  return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct* task) {
  const u32 tgid = task->tgid;
  if (!bpf_map_lookup_elem(&processes, &tgid)) {
    return 0;
  }
  const u32 tid = task->pid;
  struct st_thread_time* thread = bpf_map_lookup_elem(&threads, &tid);
  if (thread && thread->off_ns && !thread->runnable_ns) {
    thread->runnable_ns = bpf_ktime_get_ns();
  }
  return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct* task) {
  const u32 tgid = task->tgid;
  const u32 tid = task->pid;
  if (config.only_listed && task->signal->live.counter == 0) {
    bpf_map_delete_elem(&scope, &tgid);
  }
  if (!bpf_map_lookup_elem(&processes, &tgid)) {
    return 0;
  }
  bpf_map_delete_elem(&calls_in_flight, &tid);  // the number may be given to another thread
  if (task->signal->live.counter != 0) {
    return 0;  // other threads live on
  }
  struct st_exit* record = bpf_ringbuf_reserve(&scheduler_ring, sizeof(*record), 0);
  if (record) {
    fill_header(&record->header, ST_RECORD_EXIT, sizeof(*record), bpf_ktime_get_ns(), tgid, tid);
    record->exit_code = task->exit_code;
    record->padding = 0;
    bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
  } else {
    count_loss(ST_LOSS_SCHEDULER);
  }
  return 0;
}

// Only with config.only_listed: a listed process's children are listed too.
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct* parent, struct task_struct* child) {
  const u32 parent_tgid = parent->tgid;
  const u32 child_tgid = child->tgid;
  if (child_tgid != parent_tgid && bpf_map_lookup_elem(&scope, &parent_tgid)) {
    const u8 one = 1;
    bpf_map_update_elem(&scope, &child_tgid, &one, BPF_ANY);
  }
  return 0;
}

#endif
