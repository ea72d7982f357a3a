// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// What the processes of one user may take of what all users share: the rings, and tables that a process can fill. Any
// user of the host can make calls, communicators and connections at any rate.
//
// A quarter of each ring is free for every user. What waits to be read beyond that is paid for (a token bucket): a user
// may fill a ring twice a second, and the fuller the ring is the less. So a user who sends more than user space can
// read has its own records refused, and takes no room of another's. Who is alone with a ring may fill most of it.
#ifndef STALLTRACE_USER_SHARE_H
#define STALLTRACE_USER_SHARE_H

#include "state.h"
#include "wire/user_share.h"

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ST_MAX_USERS + 1);  // with ST_OTHER_USERS, which user space makes
  __type(key, u32);
  __type(value, struct st_user);
} users SEC(".maps");

static __always_inline struct st_user* share_of(u32 user) {
  struct st_user* share = bpf_map_lookup_elem(&users, &user);
  if (!share) {
    bpf_map_update_elem(&users, &user, (const void*)no_state, BPF_NOEXIST);
    share = bpf_map_lookup_elem(&users, &user);
  }
  if (!share) {
    const u32 others = ST_OTHER_USERS;
    share = bpf_map_lookup_elem(&users, &others);
  }
  return share;
}

static __always_inline void count_users_loss(struct st_user* share, u32 source) {
  __sync_fetch_and_add(&share->lost[source & (ST_SHARED_LOSSES - 1)], 1);
}

#define ST_ALONE_NS 1000000000  // no other user has sent a record for this long while the ring was that full
#define ST_EIGHTHS 8            // of a ring; how full it is

// Who sent a record last while more than a quarter of the ring waited, and when that last was another user than before.
// By ring; a power of two, so that a mask bounds an index.
__u32 ring_users[4] = {ST_OTHER_USERS, ST_OTHER_USERS, ST_OTHER_USERS, ST_OTHER_USERS};  // none yet
__u64 ring_shared_ns[4] = {};

// False where the user has had its share of a ring that is fuller than a quarter. `cost_ns`: of the records, at
// ST_USER_RINGS_A_SECOND. No static function: the verifier looks at it once, not at each call.
__noinline int pay_share(u32 ring, u32 user, u32 eighths, u32 cost_ns) {
  const u64 now = bpf_ktime_get_ns();
  if (ring_users[ring & 3] != user) {
    if (ring_users[ring & 3] != ST_OTHER_USERS) {
      ring_shared_ns[ring & 3] = now;
    }
    ring_users[ring & 3] = user;
  }
  if (eighths < ST_EIGHTHS - 1 && now - ring_shared_ns[ring & 3] > ST_ALONE_NS) {
    return 1;
  }
  struct st_user* share = share_of(user);
  if (!share) {
    return 1;
  }
  u64* paid_until = &share->paid_until_ns[ring & 3];
  if (*paid_until > now) {
    count_users_loss(share, ring);
    return 0;
  }
  const u64 saved = 1000000000 / ST_USER_RINGS_A_SECOND / 4;  // a quarter of the ring at once
  if (*paid_until + saved < now) {
    *paid_until = now - saved;
  }
  const u32 price = eighths >= 7 ? 64 : eighths >= 6 ? 16 : eighths >= 4 ? 4 : 1;
  __sync_fetch_and_add(paid_until, (u64)cost_ns * price);
  return 1;
}

#define ST_RECORD_BYTES(size) (((size) + 8 + 7) & ~7ULL)  // in the ring, with the kernel's header

// Whether records of this user's, of this size in bytes, may be written to the ring now. What may not is counted.
#define ST_HAS_SHARE(ring, number, ring_bytes, user, bytes)                                                        \
  ({                                                                                                               \
    const u64 held_ = bpf_ringbuf_query(&(ring), BPF_RB_AVAIL_DATA);                                               \
    held_ < (ring_bytes) / 4 || pay_share(number, user, held_ / ((ring_bytes) / ST_EIGHTHS),                       \
                                          (u64)(bytes) * (1000000000ULL / ST_USER_RINGS_A_SECOND) / (ring_bytes)); \
  })
#define ST_HAS_COLLECTIVE_SHARE(user, bytes) \
  ST_HAS_SHARE(collective_ring, ST_LOSS_COLLECTIVE, ST_COLLECTIVE_RING_BYTES, user, bytes)
#define ST_HAS_NETWORK_SHARE(user, bytes) \
  ST_HAS_SHARE(network_ring, ST_LOSS_NETWORK, ST_NETWORK_RING_BYTES, user, bytes)
#define ST_HAS_SCHEDULER_SHARE(user, bytes) \
  ST_HAS_SHARE(scheduler_ring, ST_LOSS_SCHEDULER, ST_SCHEDULER_RING_BYTES, user, bytes)

// Whom a task counts for: its user; in a user namespace that a user made, who has numbers by the thousand there, that
// user.
#define ST_USER_NAMESPACES 4  // below one another that are looked at
static __noinline u32 user_of(struct task_struct* task) {
  const struct cred* cred = BPF_CORE_READ(task, real_cred);
  const u32 user = BPF_CORE_READ(cred, uid.val);
  struct user_namespace* ns = BPF_CORE_READ(cred, user_ns);
  for (int i = 0; i < ST_USER_NAMESPACES; i++) {
    const int level = BPF_CORE_READ(ns, level);
    if (level == 0) {
      return user;
    }
    if (level == 1) {
      return BPF_CORE_READ(ns, owner.val) ?: user;  // root's own containers: by their users
    }
    ns = BPF_CORE_READ(ns, parent);
  }
  return ST_OTHER_USERS;
}

// Notes once whose the process is, and which of those that had its number.
static __always_inline void identify(struct st_process* process, struct task_struct* task) {
  if (!process->start_ticks) {
    process->user = user_of(task);
    process->start_ticks = BPF_CORE_READ(task, group_leader, start_boottime) / (1000000000 / ST_TICKS_PER_SECOND);
  }
}

#endif
