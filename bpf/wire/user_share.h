/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the processes of one user may take of what all users share in the kernel. */
#ifndef STALLTRACE_WIRE_USER_SHARE_H
#define STALLTRACE_WIRE_USER_SHARE_H

#include "wire/header.h"

#define ST_COLLECTIVE_RING_BYTES (8 << 20)
#define ST_NETWORK_RING_BYTES (4 << 20)
#define ST_SCHEDULER_RING_BYTES (2 << 20)

#define ST_MAX_USERS 1024
#define ST_OTHER_USERS 0xffffffffU /* one share for all users beyond ST_MAX_USERS */

#define ST_MAX_CONNECTIONS 16384
#define ST_MAX_DROPS 1024 /* between two rounds of user space's reading */

/* A user fills at most this many rings a second once a quarter of the ring waits to be read. */
#define ST_USER_RINGS_A_SECOND 2

/* The first sources of losses: those of which users have shares. */
#define ST_SHARED_LOSSES 8

/* Value of the map `users`, by the user's number. */
struct st_user {
  __u64 paid_until_ns[4];       /* of its records in each ring; ahead of the clock: it has had its share */
  __u64 lost[ST_SHARED_LOSSES]; /* by source, for want of a share */
  __u64 sequences_made;         /* entries of the map `sequences` */
  __s64 connections;            /* entries of the map `connections` whose sockets are open */
  __u32 drops_round;            /* of user space's reading, in which ... */
  __u32 drops;                  /* ... the number of entries of the map `drops` that were made */
};

ST_STATIC_ASSERT((ST_SHARED_LOSSES & (ST_SHARED_LOSSES - 1)) == 0, "a mask bounds an index");
ST_STATIC_ASSERT(ST_LOSS_CONNECTION < ST_SHARED_LOSSES && ST_SHARED_LOSSES <= ST_LOSS_COUNT, "all that have shares");
ST_STATIC_ASSERT(sizeof(struct st_user) == 8 * (4 + ST_SHARED_LOSSES + 3), "wire layout");

#endif
