// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Which communicator of NCCL's lies at an address. One that was made before tracing began has no other name: the call
// that made it, with its unique id, was not seen.
#ifndef STALLTRACE_NCCL_IDENTITY_H
#define STALLTRACE_NCCL_IDENTITY_H

#include "arguments.h"
#include "calls_in_flight.h"

// Those of the versions of NCCL that are known, set by user space; one whose end is 0 is none.
const volatile struct st_nccl_layout nccl_layouts[ST_NCCL_LAYOUTS] = {};

// At each of a communicator's first calls: NCCL counts the calls of a group when the group ends, so that a reading
// within one shows too few, and one of them alone does not show that.
#define ST_IDENTITY_READINGS 32

// Of all operations.
static __always_inline u64 launched_on(u64 counters, u32 operations) {
  u64 launched = operations ? 0 : ST_NCCL_NOT_COUNTED;
  for (u32 i = 0; i < ST_NCCL_OPERATIONS; i++) {
    if (i < operations) {
      launched += user_u64(counters + i * sizeof(u64));
    }
  }
  return launched;
}

static __always_inline void send_identity(u64 comm, const volatile struct st_nccl_layout* layout,
                                          const struct st_process* process, u64 id, u64 sequence) {
  if (!ST_HAS_COLLECTIVE_SHARE(process->user, ST_RECORD_BYTES(sizeof(struct st_nccl_identity)))) {
    return;
  }
  const u64 launched = launched_on(comm + layout->counters, layout->operations);
  struct st_nccl_identity* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_COLLECTIVE);
    return;
  }
  fill_header(&record->header, ST_RECORD_NCCL_IDENTITY, sizeof(*record), bpf_ktime_get_ns(), id >> 32, (u32)id);
  record->comm = comm;
  if (bpf_probe_read_user(&record->fields, sizeof(record->fields), (const void*)(comm + layout->identity))) {
    __builtin_memset(&record->fields, 0, sizeof(record->fields));
  }
  record->launched = launched;
  record->sequence = sequence;
  bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);  // the call's own record follows
}

// Sends what NCCL's memory shows of the communicator, if it is one. No static function: the verifier looks at it once.
__noinline int report_identity(u64 comm, u64 sequence) {
  const u64 id = bpf_get_current_pid_tgid();
  const struct st_process* process = calling_process(current_task(), id >> 32);
  if (!process || user_u64(comm) != ST_NCCL_MAGIC) {
    return 0;
  }
  for (u32 i = 0; i < ST_NCCL_LAYOUTS; i++) {
    const u32 end = nccl_layouts[i].end;
    if (end && user_u64(comm + end) == ST_NCCL_MAGIC) {
      send_identity(comm, &nccl_layouts[i], process, id, sequence);
      break;
    }
  }
  return 0;
}

#endif
