// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Connections of traced processes by their addresses: finds the owner of a packet without a socket. Old entries make
// room, since a closed connection no longer has a port by which it could be removed.
#ifndef STALLTRACE_CONNECTIONS_H
#define STALLTRACE_CONNECTIONS_H

#include "user_share.h"
#include "wire/host_drops.h"
#include "wire/tcp.h"

struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, ST_MAX_CONNECTIONS);
  __type(key, struct st_tuple);
  __type(value, struct st_connection);
} connections SEC(".maps");

// An IPv6 socket with an IPv4 peer sends IPv4 packets.
static __always_inline void as_on_the_wire(struct st_tuple* tuple) {
  tuple->netns = 0;
  const u32* source = (const u32*)tuple->source;
  const u32* destination = (const u32*)tuple->destination;
  const u32 mapped = __builtin_bswap32(0xffff);
  if (tuple->family != AF_INET6 || source[0] || source[1] || source[2] != mapped || destination[2] != mapped) {
    return;
  }
  const u32 from = source[3];
  const u32 to = destination[3];
  __builtin_memset(tuple->source, 0, sizeof(tuple->source));
  __builtin_memset(tuple->destination, 0, sizeof(tuple->destination));
  *(u32*)tuple->source = from;
  *(u32*)tuple->destination = to;
  tuple->family = AF_INET;
}

// A user's open connections take at most a quarter of the table.
static __always_inline bool may_note(struct st_socket* socket) {
  if (socket->noted == ST_NOTED_NOT) {
    struct st_user* share = share_of(socket->user);
    const bool fits = share && share->connections < ST_MAX_CONNECTIONS / 4;
    if (fits) {
      __sync_fetch_and_add(&share->connections, 1);
    } else if (share) {
      count_users_loss(share, ST_LOSS_CONNECTION);
    }
    socket->noted = fits ? ST_NOTED : ST_NOTED_REFUSED;
  }
  return socket->noted == ST_NOTED;
}

// Its entry stays, for packets that come later: the oldest makes room.
static __always_inline void connection_closed(struct st_socket* socket) {
  if (socket->noted == ST_NOTED) {
    struct st_user* share = share_of(socket->user);
    if (share) {
      __sync_fetch_and_add(&share->connections, -1);
    }
  }
  socket->noted = ST_NOTED_REFUSED;
}

static __always_inline void note_connection(const struct st_tuple* tuple, struct st_socket* socket) {
  if (!may_note(socket)) {
    return;
  }
  struct st_tuple key = *tuple;
  struct st_connection connection = {
      .cookie = socket->cookie, .tgid = socket->tgid, .netns = tuple->netns, .user = socket->user};
  as_on_the_wire(&key);
  const struct st_connection* known = bpf_map_lookup_elem(&connections, &key);  // now it is among the newest
  if (!known || known->cookie != connection.cookie || known->netns != connection.netns) {
    bpf_map_update_elem(&connections, &key, &connection, BPF_ANY);
  }
}

#endif
