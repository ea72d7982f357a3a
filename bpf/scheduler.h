// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The waits of traced processes' threads, and which process ran instead. Every context switch of the host passes
// through here; for a task that is not traced, only its missing state is looked up.
#ifndef STALLTRACE_SCHEDULER_H
#define STALLTRACE_SCHEDULER_H

#include "threads.h"

/* include/linux/sched.h */
#define TASK_DEAD_BIT 0x80

// Before Linux 5.14, task_struct.__state was called `state`.
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

static __always_inline u32 wait_kind_of(struct task_struct* task, u64 state, bool preempted) {
  if (preempted || state == 0) {
    return ST_WAIT_RUNNABLE;
  }
  if (state & (TASK_STOPPED_BIT | TASK_TRACED_BIT)) {
    return ST_WAIT_STOPPED;
  }
  if ((state & TASK_UNINTERRUPTIBLE) && BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait)) {
    return ST_WAIT_DISK;
  }
  return ST_WAIT_BLOCKED;
}

// Since when a thread off the CPU could run; 0: it can't. The kernel records it by the run queue's clock; its offset
// from our clock is known from the thread's latest arrival on a CPU, which both clocks timed.
static __always_inline u64 ready_since(const struct st_thread_time* thread, struct task_struct* task, u64 now) {
  if (thread->off_kind == ST_WAIT_RUNNABLE) {
    return thread->off_ns;
  }
  if (!bpf_core_field_exists(task->sched_info.last_queued)) {
    return 0;
  }
  const u64 queued = task->sched_info.last_queued;
  if (!queued || !thread->on_ns) {
    return 0;
  }
  const u64 ready = queued - task->sched_info.last_arrival + thread->on_ns;
  return ready < thread->off_ns ? thread->off_ns : ready > now ? now : ready;
}

// Shorter waits for a CPU are summed without the name of the other process, whose look-up costs more than the wait.
#define ST_NAMED_WAIT_NS 20000

// One activity of a thread in [from_ns, to_ns), or the sum of that activity there.
struct wait_interval {
  u64 from_ns;
  u64 to_ns;
  u64 waited_ns;
  u64 by_waited_ns;
  u32 kind;
  u32 count;
  u32 by_tgid;
  u32 padding;
  char by_name[ST_COMM_LEN];
};

static __noinline int emit_wait(const struct st_thread_time* thread, u32 tid, const struct wait_interval* wait) {
  if (!ST_HAS_SCHEDULER_SHARE(thread->user, ST_RECORD_BYTES(sizeof(struct st_wait)))) {
    return 0;
  }
  struct st_wait* record = bpf_ringbuf_reserve(&scheduler_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_SCHEDULER);
    return 0;
  }
  fill_header(&record->header, ST_RECORD_WAIT, sizeof(*record), wait->from_ns, thread->tgid, tid);
  record->end_ns = wait->to_ns;
  record->waited_ns = wait->waited_ns;
  record->by_waited_ns = wait->by_waited_ns;
  record->count = wait->count;
  record->by_tgid = wait->by_tgid;
  record->kind = wait->kind;
  record->open = 0;
  record->padding = 0;
  __builtin_memcpy(record->thread_name, thread->thread_name, sizeof(record->thread_name));
  __builtin_memcpy(record->by_name, wait->by_name, sizeof(record->by_name));
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&scheduler_ring));
  return 0;
}

// Reports the sums of the window that ends at `to`, and starts the next window.
static __noinline int flush_window(struct st_thread_time* thread, u32 tid, u64 to) {
  for (u32 kind = 0; kind < ST_WAIT_KINDS; kind++) {
    struct st_wait_sum* sum = &thread->sums[kind];
    if (sum->waited_ns >= config.window_min_ns) {
      struct wait_interval wait = {.from_ns = thread->window_ns, .to_ns = to, .waited_ns = sum->waited_ns};
      wait.kind = kind;
      wait.count = sum->count;
      if (kind == ST_WAIT_RUNNABLE) {
        wait.by_tgid = thread->by_tgid;
        wait.by_waited_ns = thread->by_waited_ns;
        __builtin_memcpy(wait.by_name, thread->by_name, sizeof(wait.by_name));
      }
      emit_wait(thread, tid, &wait);
    }
    sum->waited_ns = 0;
    sum->count = 0;
  }
  thread->by_tgid = 0;
  thread->by_weight_ns = 0;
  thread->by_waited_ns = 0;
  __builtin_memset(thread->by_name, 0, sizeof(thread->by_name));
  thread->window_ns = to;
  return 0;
}

// Boyer and Moore's majority vote, weighted by time: one slot is enough to find the process that ran more than half of
// it.
static __always_inline void vote(struct st_thread_time* thread, u64 waited, struct task_struct* by) {
  const u32 by_tgid = by->tgid;
  if (thread->by_tgid == by_tgid) {
    thread->by_weight_ns += waited;
    thread->by_waited_ns += waited;
  } else if (thread->by_weight_ns >= waited) {
    thread->by_weight_ns -= waited;
  } else {
    thread->by_tgid = by_tgid;
    thread->by_weight_ns = waited - thread->by_weight_ns;
    thread->by_waited_ns = waited;
    bpf_probe_read_kernel(thread->by_name, sizeof(thread->by_name), by->comm);
  }
}

static __always_inline void report_long_wait(struct st_thread_time* thread, u32 tid, u32 kind, u64 from, u64 to,
                                             struct task_struct* by) {
  struct wait_interval wait = {.from_ns = from, .to_ns = to, .waited_ns = to - from, .kind = kind, .count = 1};
  if (by && by->tgid) {
    wait.by_tgid = by->tgid;
    wait.by_waited_ns = wait.waited_ns;
    bpf_probe_read_kernel(wait.by_name, sizeof(wait.by_name), by->comm);
  }
  flush_window(thread, tid, from);
  emit_wait(thread, tid, &wait);
  thread->window_ns = to;
}

static __always_inline void add_time(struct st_thread_time* thread, struct task_struct* task, u32 kind, u64 from,
                                     u64 to, struct task_struct* by) {
  if (kind >= ST_WAIT_KINDS || to <= from) {
    return;
  }
  const u64 waited = to - from;
  if (waited >= config.long_wait_ns) {
    report_long_wait(thread, task->pid, kind, from, to, by);
    return;
  }
  thread->sums[kind].waited_ns += waited;
  thread->sums[kind].count += 1;
  if (by && waited >= ST_NAMED_WAIT_NS && by->tgid) {  // the idle task has no name
    vote(thread, waited, by);
  }
}

// Most tasks of a host have no storage at all, which is visible without a helper call.
static __always_inline struct st_thread_time* thread_of(struct task_struct* task) {
  if (!config.task_storage) {
    return state_by_number(&threads_by_tid, task->pid, false);
  }
  if (bpf_core_field_exists(task->bpf_storage) && !task->bpf_storage) {
    return NULL;
  }
  return bpf_task_storage_get(&threads, task, 0, 0);
}

static __always_inline void leaves_cpu(struct st_thread_time* thread, struct task_struct* task, bool preempted,
                                       u64 now) {
  const bool window_over = now - thread->window_ns >= config.window_ns;
  if (window_over || !thread->thread_name[0]) {  // a thread may rename itself after its start
    bpf_probe_read_kernel(thread->thread_name, sizeof(thread->thread_name), task->comm);
  }
  if (thread->on_ns && !thread->off_ns) {
    add_time(thread, task, ST_WAIT_ON_CPU, thread->on_ns, now, NULL);
  }
  const u64 state = state_of(task);
  if (window_over || (state & TASK_DEAD_BIT)) {
    flush_window(thread, task->pid, now);
  }
  thread->off_ns = now;
  thread->off_kind = wait_kind_of(task, state, preempted);
  if (!config.task_storage && (state & TASK_DEAD_BIT)) {
    const u32 tid = task->pid;
    bpf_map_delete_elem(&threads_by_tid, &tid);
  }
}

static __always_inline void gets_cpu(struct st_thread_time* thread, struct task_struct* task,
                                     struct task_struct* previous, u64 now) {
  if (thread->off_ns) {
    const u64 ready = ready_since(thread, task, now) ?: now;
    if (thread->off_kind != ST_WAIT_RUNNABLE) {
      add_time(thread, task, thread->off_kind, thread->off_ns, ready, NULL);
    }
    add_time(thread, task, ST_WAIT_RUNNABLE, ready, now, previous);
  }
  thread->on_ns = now;
  thread->off_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct* prev, struct task_struct* next) {
  u64 now = 0;
  struct st_thread_time* leaving = thread_of(prev);
  if (leaving) {
    now = bpf_ktime_get_ns();
    leaves_cpu(leaving, prev, preempt, now);
  }
  struct st_thread_time* coming = thread_of(next);
  if (coming) {
    gets_cpu(coming, next, prev, now ?: bpf_ktime_get_ns());
  }
  return 0;
}

// Walks the threads of traced processes: begins to watch those that existed before the process was known, and lists
// those that wait.
SEC("iter/task")
int list_threads(struct bpf_iter__task* ctx) {
  struct task_struct* task = ctx->task;
  struct st_process* process = task ? process_of(task, task->tgid) : NULL;
  if (!process) {
    return 0;
  }
  identify(process, task);
  const u64 now = bpf_ktime_get_ns();
  struct st_thread_listing listing = {};
  fill_header(&listing.header, ST_RECORD_THREAD_LISTING, sizeof(listing), now, task->tgid, task->pid);
  struct st_thread_time* thread = thread_of(task);
  if (!thread) {
    const u64 state = state_of(task);
    if (state & TASK_DEAD_BIT) {
      return 0;  // nothing would delete it
    }
    thread = watch_thread(process, task, task->pid, task->tgid, now);
    if (!thread && !config.task_storage) {
      count_loss(ST_LOSS_THREAD_STATE);  // the table is full: another reading would find the same
      return 0;
    }
    if (!thread) {
      listing.off_kind = ST_THREAD_UNWATCHED;
      bpf_seq_write(ctx->meta->seq, &listing, sizeof(listing));
    } else if (state) {  // it waits, at least since now
      thread->off_kind = wait_kind_of(task, state, false);
      thread->off_ns = now;
    }
    return 0;
  }
  const u64 off_ns = thread->off_ns;
  if (!off_ns || off_ns >= now) {  // on a CPU, or taken off by another CPU's switch since `now`
    return 0;
  }
  listing.off_ns = off_ns;
  listing.off_kind = thread->off_kind;
  const u64 ready_ns = ready_since(thread, task, now);
  listing.ready_ns = ready_ns < now ? ready_ns : now;  // a switch may have moved it beyond `now` since
  bpf_probe_read_kernel(listing.thread_name, sizeof(listing.thread_name), task->comm);
  bpf_seq_write(ctx->meta->seq, &listing, sizeof(listing));
  return 0;
}

#endif
