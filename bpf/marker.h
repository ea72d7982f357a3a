// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Whose data a connection carries: the profiler plugin's marker (plugin/wire/marker.h) is called right after the
// transfer that finished a step, by the thread that made it. What that thread moved last goes with it; user space
// decides.
#ifndef STALLTRACE_MARKER_H
#define STALLTRACE_MARKER_H

#include "collective.h"  // the calling convention
#include "maps.h"
#include "wire/marker.h"
#include "wire/tcp.h"

// Set by user space when it probes a marker: until then transfers are not followed.
__u64 markers_probed = 0;

struct thread_transfers {
  struct st_last_transfer last[2];  // 0 receive, 1 send
};
struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct thread_transfers);
} last_transfers SEC(".maps");

static __always_inline void note_transfer(struct task_struct* task, struct st_socket* socket, u32 bytes, bool is_send,
                                          u64 now) {
  if (!markers_probed) {
    return;
  }
  __sync_fetch_and_add(&socket->moved[is_send ? 1 : 0], bytes);
  struct thread_transfers* transfers = bpf_task_storage_get(&last_transfers, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (transfers) {
    struct st_last_transfer* last = &transfers->last[is_send ? 1 : 0];
    last->cookie = socket->cookie;
    last->moved = socket->moved[is_send ? 1 : 0];
    last->time_ns = now;
  }
}

SEC("uprobe")
int step_moved(struct pt_regs* ctx) {
  struct task_struct* task = bpf_get_current_task_btf();
  const struct thread_transfers* transfers =
      process_of(task) ? bpf_task_storage_get(&last_transfers, task, 0, 0) : NULL;
  if (!transfers) {
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
  const u64 id = bpf_get_current_pid_tgid();
  record->last = transfers->last[record->step.is_send ? 1 : 0];
  fill_header(&record->header, ST_RECORD_STEP_MARK, sizeof(*record), bpf_ktime_get_ns(), id >> 32, (u32)id);
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&network_ring));
  return 0;
}

#endif
