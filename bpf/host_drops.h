// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Packets of traced connections that the host drops, with the kernel's reason. Every packet freed on the host passes
// through here: all but those dropped for a recorded reason return at once; the rest are counted, never sent.
#ifndef STALLTRACE_HOST_DROPS_H
#define STALLTRACE_HOST_DROPS_H

#include "connections.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd

// Set by user space before loading, from this kernel's numbers: 1 for a recorded reason.
const volatile __u8 recorded_drop_reasons[ST_DROP_REASONS] = {};

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ST_MAX_DROPS);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct st_drop_key);
  __type(value, struct st_drops);
} drops SEC(".maps");

// Which round of user space's reading comes next. Set by user space.
__u32 drops_round = 0;

// One more entry in `drops` until the next round. A user has at most a quarter of them.
static __always_inline bool may_count_drop(u32 user) {
  struct st_user* share = share_of(user);
  if (!share) {
    return true;
  }
  if (share->drops_round != drops_round) {
    share->drops_round = drops_round;
    share->drops = 0;
  }
  if (share->drops >= ST_MAX_DROPS / 4) {
    count_users_loss(share, ST_LOSS_DROPS);
    return false;
  }
  __sync_fetch_and_add(&share->drops, 1);
  return true;
}

// Reads the addresses of the TCP packet whose network header is at `at`; false if there is none.
static __always_inline bool read_addresses(const u8* at, struct st_tuple* tuple) {
  u8 header[40];
  u16 ports[2];
  u32 length = 40;
  __builtin_memset(tuple, 0, sizeof(*tuple));
  if (bpf_probe_read_kernel(header, 20, at)) {
    return false;
  }
  if (header[0] >> 4 == 4) {
    const u16 fragment = (header[6] & 0x1f) << 8 | header[7];
    if (header[9] != IPPROTO_TCP || fragment) {
      return false;
    }
    tuple->family = AF_INET;
    __builtin_memcpy(tuple->source, header + 12, 4);
    __builtin_memcpy(tuple->destination, header + 16, 4);
    length = (header[0] & 0xf) * 4;
  } else if (header[0] >> 4 == 6) {
    if (header[6] != IPPROTO_TCP || bpf_probe_read_kernel(header, 40, at)) {
      return false;
    }
    tuple->family = AF_INET6;
    __builtin_memcpy(tuple->source, header + 8, 16);
    __builtin_memcpy(tuple->destination, header + 24, 16);
  } else {
    return false;
  }
  if (bpf_probe_read_kernel(ports, sizeof(ports), at + length)) {
    return false;
  }
  tuple->source_port = __builtin_bswap16(ports[0]);
  tuple->destination_port = __builtin_bswap16(ports[1]);
  return true;
}

static __always_inline void turn_round(struct st_tuple* tuple) {
  u8 address[16];
  const u16 port = tuple->source_port;
  __builtin_memcpy(address, tuple->source, 16);
  __builtin_memcpy(tuple->source, tuple->destination, 16);
  __builtin_memcpy(tuple->destination, address, 16);
  tuple->source_port = tuple->destination_port;
  tuple->destination_port = port;
}

static __always_inline void count_drop(const struct st_tuple* tuple, u32 netns, u16 reason, u16 incoming, u32 bytes) {
  const struct st_connection* connection = bpf_map_lookup_elem(&connections, tuple);
  if (!connection) {
    return;
  }
  struct st_drop_key key = {.cookie = connection->cookie, .reason = reason, .incoming = incoming};
  key.netns = netns ? netns : connection->netns;  // a packet that reached its socket no longer has a device
  if (config.only_netns && key.netns != config.only_netns) {
    return;  // dropped on another node, or on the network between
  }
  const u64 now = bpf_ktime_get_ns();
  struct st_drops* sum = bpf_map_lookup_elem(&drops, &key);
  if (!sum) {
    if (!may_count_drop(connection->user)) {
      return;
    }
    const struct st_drops first = {.first_ns = now, .tgid = connection->tgid};
    bpf_map_update_elem(&drops, &key, &first, BPF_NOEXIST);
    sum = bpf_map_lookup_elem(&drops, &key);
  }
  if (!sum) {
    count_loss(ST_LOSS_DROPS);
    return;
  }
  sum->last_ns = now;
  __sync_fetch_and_add(&sum->bytes, bytes);
  __sync_fetch_and_add(&sum->packets, 1);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(kfree_skb, struct sk_buff* skb, void* location, u32 reason) {
  if (reason >= ST_DROP_REASONS) {
    return 0;
  }
  u64 index = reason;
  asm volatile("%0 &= %1" : "+r"(index) : "i"(ST_DROP_REASONS - 1));  // a bound that the verifier sees
  if (!recorded_drop_reasons[index]) {
    return 0;
  }
  const u16 protocol = __builtin_bswap16(skb->protocol);
  if (protocol != ETH_P_IP && protocol != ETH_P_IPV6) {
    return 0;
  }
  struct st_tuple tuple;
  // A driver's packet that no layer has examined begins with its network header.
  if (!read_addresses(BPF_CORE_READ(skb, head) + skb->network_header, &tuple) &&
      !read_addresses(BPF_CORE_READ(skb, data), &tuple)) {
    return 0;
  }
  const u32 netns = BPF_CORE_READ(skb, dev, nd_net.net, ns.inum);
  count_drop(&tuple, netns, reason, 0, skb->len);
  turn_round(&tuple);
  count_drop(&tuple, netns, reason, 1, skb->len);
  return 0;
}

#endif
