// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Connections of traced processes by their addresses: finds the owner of a packet without a socket. Old entries make
// room, since a closed connection no longer has a port by which it could be removed.
#ifndef STALLTRACE_CONNECTIONS_H
#define STALLTRACE_CONNECTIONS_H

#include "maps.h"
#include "wire/host_drops.h"
#include "wire/tcp.h"

struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 16384);
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

static __always_inline void note_connection(const struct st_tuple* tuple, const struct st_socket* socket) {
  struct st_tuple key = *tuple;
  struct st_connection connection = {.cookie = socket->cookie, .tgid = socket->tgid, .netns = tuple->netns};
  as_on_the_wire(&key);
  bpf_map_update_elem(&connections, &key, &connection, BPF_ANY);
}

#endif
