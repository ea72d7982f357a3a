// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// State shared by all probe families: configuration, rings, the traced processes, loss counts.
#ifndef STALLTRACE_MAPS_H
#define STALLTRACE_MAPS_H

#include "kernel_types.h"
#include "wire/config.h"
#include "wire/header.h"
#include "wire/user_share.h"

// Constant once the programs are loaded.
const volatile struct st_config config = {};

#define ST_RING(name, bytes)            \
  struct {                              \
    __uint(type, BPF_MAP_TYPE_RINGBUF); \
    __uint(max_entries, bytes);         \
  } name SEC(".maps")

// One ring per family, so that a flood of one causes no loss in another.
ST_RING(collective_ring, ST_COLLECTIVE_RING_BYTES);
ST_RING(network_ring, ST_NETWORK_RING_BYTES);
ST_RING(scheduler_ring, ST_SCHEDULER_RING_BYTES);

// With config.only_listed: the processes from the command line and their descendants.
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 65536);
  __type(key, u32);  // tgid
  __type(value, u8);
} scope SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, ST_LOSS_COUNT);
  __type(key, u32);
  __type(value, u64);
} losses SEC(".maps");

static __always_inline void count_loss(u32 source) {
  u64* count = bpf_map_lookup_elem(&losses, &source);
  if (count) {
    *count += 1;
  }
}

static __always_inline void fill_header(struct st_header* header, u16 type, u32 size, u64 now, u32 tgid, u32 tid) {
  header->type = type;
  header->version = ST_WIRE_VERSION;
  header->size = size;
  header->time_ns = now;
  header->tgid = tgid;
  header->tid = tid;
}

// User space reads on a timer, and is woken early only when a ring fills, so that an event costs no wake-up. A wake-up
// is an interrupt of this CPU, which is expensive in a virtual machine. While the ring holds more than wake_bytes and
// the reader is on its way, only few records cause one (those in the first ST_WAKE_WINDOW_BYTES after each multiple of
// wake_bytes).
#define ST_WAKE_WINDOW_BYTES 2048

static __always_inline u64 wake_flags(void* ring) {
  const u64 held = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
  return held >= config.wake_bytes && held % config.wake_bytes < ST_WAKE_WINDOW_BYTES ? BPF_RB_FORCE_WAKEUP
                                                                                      : BPF_RB_NO_WAKEUP;
}
#define ST_WAKE_FLAGS(ring) wake_flags(ring)

// The running task. Only with config.task_storage it is a pointer that the verifier knows, so that its fields can be
// read without BPF_CORE_READ.
static __always_inline struct task_struct* current_task(void) {
  if (config.task_storage) {
    return bpf_get_current_task_btf();
  }
  return (struct task_struct*)bpf_get_current_task();
}

static __always_inline u32 netns_of(struct task_struct* task) { return BPF_CORE_READ(task, nsproxy, net_ns, ns.inum); }

static __always_inline bool in_scope(u32 tgid, struct task_struct* task) {
  if (tgid == config.self_tgid) {
    return false;
  }
  if (config.only_listed && !bpf_map_lookup_elem(&scope, &tgid)) {
    return false;
  }
  return !config.only_netns || netns_of(task) == config.only_netns;
}

#endif
