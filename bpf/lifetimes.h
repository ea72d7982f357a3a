// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Starts and ends of threads and processes: begins to watch new ones, deletes the state of ended ones.
#ifndef STALLTRACE_LIFETIMES_H
#define STALLTRACE_LIFETIMES_H

#include "marker.h"
#include "synchronisation.h"
#include "threads.h"
#include "transfers.h"

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct* parent, struct task_struct* child) {
  const u32 parent_tgid = parent->tgid;
  const u32 child_tgid = child->tgid;
  if (child_tgid == parent_tgid) {
    struct st_process* process = process_of(parent, parent_tgid);
    if (!process) {
      return 0;
    }
    identify(process, parent);
    if (!watch_thread(process, child, child->pid, child_tgid, bpf_ktime_get_ns())) {
      count_loss(ST_LOSS_THREAD_STATE);
    }
  } else if (config.only_listed && bpf_map_lookup_elem(&scope, &parent_tgid)) {
    const u8 one = 1;
    if (bpf_map_update_elem(&scope, &child_tgid, &one, BPF_ANY) != 0) {  // a listed process's children are listed too
      count_loss(ST_LOSS_SCOPE);
    }
  }
  return 0;
}

// Deletes a thread's entries in tables by number, but not its times: it is switched away from once more.
static __always_inline void forget_thread(u32 tid) {
  bpf_map_delete_elem(&calls_in_flight_by_tid, &tid);
  if (!config.socket_storage) {
    bpf_map_delete_elem(&socket_calls, &tid);
  }
  if (!config.task_storage) {
    bpf_map_delete_elem(&waits_by_tid, &tid);
    bpf_map_delete_elem(&last_transfers_by_tid, &tid);
  }
}

// A thread that replaces its process's program takes the first thread's number, so no thread ends under its old number.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct* task, int old_tid) {
  const u32 tid = old_tid;
  if (tid != (u32)task->pid) {
    forget_thread(tid);
    if (!config.task_storage) {
      bpf_map_delete_elem(&threads_by_tid, &tid);
    }
  }
  return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct* task) {
  const u32 tgid = task->tgid;
  const u32 tid = task->pid;
  forget_thread(tid);
  if (task->signal->live.counter != 0) {
    return 0;  // other threads live on
  }
  if (config.only_listed) {
    bpf_map_delete_elem(&scope, &tgid);
  }
  struct st_process* process = calling_process(task, tgid);
  if (!process) {
    return 0;
  }
  identify(process, task);
  const u32 start_ticks = process->start_ticks;
  const u32 user = process->user;
  bpf_map_delete_elem(&processes_by_tgid, &tgid);
  if (!ST_HAS_SCHEDULER_SHARE(user, ST_RECORD_BYTES(sizeof(struct st_exit)))) {
    return 0;
  }
  struct st_exit* record = bpf_ringbuf_reserve(&scheduler_ring, sizeof(*record), 0);
  if (record) {
    fill_header(&record->header, ST_RECORD_EXIT, sizeof(*record), bpf_ktime_get_ns(), tgid, task->pid);
    record->exit_code = task->exit_code;
    record->start_ticks = start_ticks;
    record->user = user;
    record->padding = 0;
    bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
  } else {
    count_loss(ST_LOSS_SCHEDULER);
  }
  return 0;
}

// The victim is an argument since Linux 6.8; before that, its number is.
SEC("raw_tp/mark_victim")
int mark_victim(struct bpf_raw_tracepoint_args* ctx) {
  const u64 victim = ctx->args[0];
  const bool is_number = victim < 1 << 22;  // PID_MAX_LIMIT
  const u32 tgid = is_number ? victim : BPF_CORE_READ((struct task_struct*)victim, tgid);
  struct st_oom_kill* record = bpf_ringbuf_reserve(&scheduler_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_SCHEDULER);
    return 0;
  }
  fill_header(&record->header, ST_RECORD_OOM_KILL, sizeof(*record), bpf_ktime_get_ns(), tgid, tgid);
  bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
  return 0;
}

#endif
