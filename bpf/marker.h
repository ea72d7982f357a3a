// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Socket attribution: the thread that finished a step calls the profiler plugin's marker (plugin/wire/marker.h) right
// after the step's transfer. The record includes that thread's last transfer; user space decides.
#ifndef STALLTRACE_MARKER_H
#define STALLTRACE_MARKER_H

#include "calling_convention.h"
#include "user_share.h"
#include "wire/marker.h"
#include "wire/tcp.h"

// Set by user space when it probes a marker; until then transfers are not followed.
__u64 markers_probed = 0;

struct thread_transfers {
  struct st_last_transfer last[2];  // 0 receive, 1 send
};
ST_TASK_STATE(last_transfers, struct thread_transfers);
ST_STATE_BY_NUMBER(last_transfers_by_tid, struct thread_transfers, ST_TRACED_THREADS);

static __always_inline struct thread_transfers* transfers_of(struct task_struct* task, u32 tid, bool make) {
  if (config.task_storage) {
    return bpf_task_storage_get(&last_transfers, task, 0, make ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
  }
  return state_by_number(&last_transfers_by_tid, tid, make);
}

static __always_inline void note_transfer(struct task_struct* task, u32 tid, struct st_socket* socket, u32 bytes,
                                          bool is_send, u64 now) {
  if (!markers_probed) {
    return;
  }
  __sync_fetch_and_add(&socket->moved[is_send ? 1 : 0], bytes);
  struct thread_transfers* transfers = transfers_of(task, tid, true);
  if (transfers) {
    struct st_last_transfer* last = &transfers->last[is_send ? 1 : 0];
    last->cookie = socket->cookie;
    last->moved = socket->moved[is_send ? 1 : 0];
    last->time_ns = now;
  }
}

SEC("uprobe")
int step_moved(struct pt_regs* ctx) {
  struct task_struct* task = current_task();
  const u64 id = bpf_get_current_pid_tgid();
  const struct st_process* process = process_of(task, id >> 32);
  const struct thread_transfers* transfers = process ? transfers_of(task, (u32)id, false) : NULL;
  if (!transfers || !ST_HAS_NETWORK_SHARE(process->user, ST_RECORD_BYTES(sizeof(struct st_step_mark)))) {
    return 0;
  }
  struct st_step_mark* record = bpf_ringbuf_reserve(&network_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_NETWORK);
    return 0;
  }
  const void* step = (const void*)ST_FIRST_ARGUMENT((const struct st_registers*)ctx);
  if (bpf_probe_read_user(&record->step, sizeof(record->step), step) != 0) {
    bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
    return 0;
  }
  record->last = transfers->last[record->step.is_send ? 1 : 0];
  fill_header(&record->header, ST_RECORD_STEP_MARK, sizeof(*record), bpf_ktime_get_ns(), id >> 32, (u32)id);
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&network_ring));
  return 0;
}

#endif
