// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Sockets of traced processes: owners and recorded data. The owner is learned in process context (a send, a receive, a
// connect, or the listing of its files) and stored with the socket; it is never the current task.
#ifndef STALLTRACE_SOCKETS_H
#define STALLTRACE_SOCKETS_H

#include "connections.h"
#include "state.h"
#include "wire/tcp.h"

// The owner and the running sums of a traced process's socket, in the socket's storage, which the kernel frees with the
// socket. Tracing programs can use that storage from Linux 5.12 on, programs at kprobes never. Without it the state is
// in a table by the socket's address, and deleted when the connection is closed.
struct {
  __uint(type, BPF_MAP_TYPE_SK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct st_socket);
} sockets SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ST_TRACED_SOCKETS);
  __type(key, u64);
  __type(value, struct st_socket);
} sockets_by_address SEC(".maps");

// When the peer established a connection that has no owner yet: the handshake ends in an interrupt, its process is
// known at the first byte. The table covers the whole host, so old entries make room.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 8192);
  __type(key, u64);  // socket_key
  __type(value, u64);
} accepted_ns SEC(".maps");

// The state of a socket whose owner is known to be a traced process; in any context.
static __always_inline struct st_socket* owned_socket(struct sock* sk) {
  if (config.socket_storage) {
    return bpf_sk_storage_get(&sockets, sk, 0, 0);
  }
  const u64 address = (u64)sk;
  return bpf_map_lookup_elem(&sockets_by_address, &address);
}

static __always_inline void forget_socket(struct sock* sk) {
  if (!config.socket_storage) {
    const u64 address = (u64)sk;
    bpf_map_delete_elem(&sockets_by_address, &address);
  }
}

// Distinguishes a socket from all others that are open now.
static __always_inline u64 socket_key(struct sock* sk) {
  return config.socket_storage ? bpf_get_socket_cookie(sk) : (u64)sk;
}

// Distinguishes a socket from all others that ever existed: the kernel's cookie, else the time when it was first seen,
// mixed with a random number; 63 bits, as SQLite's integers.
static __always_inline u64 socket_cookie(struct sock* sk) {
  if (config.socket_storage) {
    return bpf_get_socket_cookie(sk);
  }
  return (bpf_ktime_get_ns() * 0x9e3779b97f4a7c15 ^ bpf_get_prandom_u32()) >> 1;
}

// The state of a socket, created if missing. Not for closed sockets, whose state nothing would delete.
static __always_inline struct st_socket* new_socket(struct sock* sk) {
  if (config.socket_storage) {
    return bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  }
  const u64 address = (u64)sk;
  bpf_map_update_elem(&sockets_by_address, &address, (const void*)no_state, BPF_NOEXIST);
  return bpf_map_lookup_elem(&sockets_by_address, &address);
}

static __always_inline void read_tuple(struct st_tuple* tuple, struct sock* sk) {
  __builtin_memset(tuple, 0, sizeof(*tuple));
  tuple->family = BPF_CORE_READ(sk, __sk_common.skc_family);
  tuple->source_port = BPF_CORE_READ(sk, __sk_common.skc_num);
  tuple->destination_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
  tuple->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
  if (tuple->family == AF_INET) {
    bpf_probe_read_kernel(tuple->source, 4, &sk->__sk_common.skc_rcv_saddr);
    bpf_probe_read_kernel(tuple->destination, 4, &sk->__sk_common.skc_daddr);
  } else {
    bpf_probe_read_kernel(tuple->source, 16, &sk->__sk_common.skc_v6_rcv_saddr);
    bpf_probe_read_kernel(tuple->destination, 16, &sk->__sk_common.skc_v6_daddr);
  }
}

/* include/net/tcp.h, enum tcp_chrono: 1 busy, 2 receive-window limited, 3 send-buffer limited; the running one is not
 * yet in its sum (net/ipv4/tcp.c, tcp_get_info_chrono_stats). */
static __always_inline u32 chrono(struct tcp_sock* tp, u32 which, u32 now_jiffies) {
  u32 sum = 0;
  bpf_core_read(&sum, sizeof(sum), &tp->chrono_stat[which - 1]);
  if (BPF_CORE_READ_BITFIELD_PROBED(tp, chrono_type) == which) {
    sum += now_jiffies - BPF_CORE_READ(tp, chrono_start);
  }
  return sum;
}

static __always_inline void read_metrics(struct st_tcp_metrics* metrics, struct sock* sk) {
  struct tcp_sock* tp = (struct tcp_sock*)sk;
  const u32 snd_una = BPF_CORE_READ(tp, snd_una);
  const u32 snd_nxt = BPF_CORE_READ(tp, snd_nxt);
  const u32 now_jiffies = (u32)bpf_jiffies64();
  metrics->bytes_acked = BPF_CORE_READ(tp, bytes_acked);
  metrics->bytes_received = BPF_CORE_READ(tp, bytes_received);
  metrics->srtt_us = BPF_CORE_READ(tp, srtt_us) >> 3;
  metrics->cwnd = BPF_CORE_READ(tp, snd_cwnd);
  metrics->packets_out = BPF_CORE_READ(tp, packets_out);
  metrics->retrans_out = BPF_CORE_READ(tp, retrans_out);
  metrics->lost_out = BPF_CORE_READ(tp, lost_out);
  metrics->total_retrans = BPF_CORE_READ(tp, total_retrans);
  metrics->dsack_dups = BPF_CORE_READ(tp, dsack_dups);
  metrics->mss = BPF_CORE_READ(tp, mss_cache);
  metrics->unacked_bytes = snd_nxt - snd_una;
  metrics->notsent_bytes = BPF_CORE_READ(tp, write_seq) - snd_nxt;
  metrics->unread_bytes = BPF_CORE_READ(tp, rcv_nxt) - BPF_CORE_READ(tp, copied_seq);
  metrics->snd_wnd = BPF_CORE_READ(tp, snd_wnd);
  metrics->rcv_wnd = BPF_CORE_READ(tp, rcv_wnd);
  metrics->receiver_limited_jiffies = chrono(tp, 2, now_jiffies);
  metrics->sndbuf_limited_jiffies = chrono(tp, 3, now_jiffies);
  metrics->busy_jiffies =
      chrono(tp, 1, now_jiffies) + metrics->receiver_limited_jiffies + metrics->sndbuf_limited_jiffies;
  metrics->ca_state = BPF_CORE_READ_BITFIELD_PROBED(tp, inet_conn.icsk_ca_state);
  metrics->retransmits = BPF_CORE_READ(tp, inet_conn.icsk_retransmits);
  metrics->backoff = BPF_CORE_READ(tp, inet_conn.icsk_backoff);
  metrics->tcp_state = BPF_CORE_READ(sk, __sk_common.skc_state);
  metrics->padding = 0;
}

static __always_inline void emit_event_at(u64 now, struct sock* sk, const struct st_socket* socket, u16 kind, s32 state,
                                          u32 sequence, u32 length) {
  if (!ST_HAS_NETWORK_SHARE(socket->user, ST_RECORD_BYTES(sizeof(struct st_tcp_event)))) {
    return;
  }
  struct st_tcp_event* record = bpf_ringbuf_reserve(&network_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_NETWORK);
    return;
  }
  fill_header(&record->header, ST_RECORD_TCP_EVENT, sizeof(*record), now, socket->tgid, socket->tid);
  record->cookie = socket->cookie;
  record->cgroup_id = socket->cgroup_id;
  read_tuple(&record->tuple, sk);
  record->sequence = sequence;
  record->length = length;
  record->state = state;
  record->kind = kind;
  record->padding = 0;
  record->padding2 = 0;
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&network_ring));
}

static __always_inline void emit_event(struct sock* sk, const struct st_socket* socket, u16 kind, s32 state,
                                       u32 sequence, u32 length) {
  emit_event_at(bpf_ktime_get_ns(), sk, socket, kind, state, sequence, length);
}

static __always_inline u8 congestion_state(struct sock* sk) {
  return BPF_CORE_READ_BITFIELD_PROBED((struct tcp_sock*)sk, inet_conn.icsk_ca_state);
}

// With config.congestion_by_ack: emits the state if it differs from the last one seen.
static __always_inline void note_congestion_state(struct sock* sk, struct st_socket* socket, u8 state) {
  if (config.congestion_by_ack && socket->congestion_state != state) {
    socket->congestion_state = state;
    emit_event(sk, socket, ST_TCP_CONGESTION_STATE, state, 0, 0);
  }
}

// The owner of a connection has become known: reports when its peer established it, if it did.
static __always_inline void emit_accept(struct sock* sk, const struct st_socket* socket) {
  const u64 key = socket_key(sk);
  const u64* accepted = bpf_map_lookup_elem(&accepted_ns, &key);
  if (accepted) {
    emit_event_at(*accepted, sk, socket, ST_TCP_ACCEPT, 0, 0, 0);
    bpf_map_delete_elem(&accepted_ns, &key);
  }
}

static __always_inline void emit_sample(struct sock* sk, struct st_socket* socket, u64 now) {
  if (!ST_HAS_NETWORK_SHARE(socket->user, ST_RECORD_BYTES(sizeof(struct st_tcp_sample)))) {
    return;
  }
  struct st_tcp_sample* record = bpf_ringbuf_reserve(&network_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_NETWORK);
    return;
  }
  fill_header(&record->header, ST_RECORD_TCP_SAMPLE, sizeof(*record), now, socket->tgid, socket->tid);
  record->cookie = socket->cookie;
  read_metrics(&record->metrics, sk);
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&network_ring));
  socket->last_sample_ns = now;
}

static __always_inline void emit_span(const struct st_socket* socket, const struct st_span_state* span, u32 is_send) {
  if (!ST_HAS_NETWORK_SHARE(socket->user, ST_RECORD_BYTES(sizeof(struct st_net_span)))) {
    return;
  }
  struct st_net_span* record = bpf_ringbuf_reserve(&network_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_NETWORK);
    return;
  }
  fill_header(&record->header, ST_RECORD_NET_SPAN, sizeof(*record), span->start_ns, socket->tgid, span->tid);
  record->cookie = socket->cookie;
  record->end_ns = span->last_ns;
  record->bytes = span->bytes;
  record->calls = span->calls;
  record->is_send = is_send;
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&network_ring));
}

// Spans that have been silent since before this time are ended by the next listing. Set by user space.
__u64 idle_before_ns = 0;

static __always_inline void end_spans(struct st_socket* socket, u64 before_ns) {
  for (int direction = 0; direction < 2; direction++) {
    struct st_span_state* span = &socket->spans[direction];
    if (span->calls && span->last_ns < before_ns) {
      emit_span(socket, span, direction);
      span->calls = 0;
    }
  }
}

// Adds a connection to the table of addresses once it has both addresses.
static __always_inline void note_socket(struct sock* sk, struct st_socket* socket) {
  struct st_tuple tuple;
  read_tuple(&tuple, sk);
  if (tuple.source_port && tuple.destination_port) {
    note_connection(&tuple, socket);
  }
}

// Stores the owner of a socket and reports the connection to user space. Process context.
static __always_inline struct st_socket* adopt_socket(struct sock* sk, u64 id, const struct st_process* process) {
  struct st_socket* socket = new_socket(sk);
  if (!socket) {
    count_loss(ST_LOSS_SOCKET_STATE);
    return NULL;
  }
  socket->cookie = socket_cookie(sk);
  socket->tgid = id >> 32;
  socket->tid = (u32)id;
  socket->cgroup_id = process->cgroup_id;
  socket->user = process->user;
  note_socket(sk, socket);
  if (!ST_HAS_NETWORK_SHARE(socket->user, ST_RECORD_BYTES(sizeof(struct st_socket_seen)))) {
    return socket;
  }
  struct st_socket_seen* record = bpf_ringbuf_reserve(&network_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_NETWORK);
    return socket;
  }
  fill_header(&record->header, ST_RECORD_SOCKET, sizeof(*record), bpf_ktime_get_ns(), socket->tgid, socket->tid);
  record->cookie = socket->cookie;
  record->cgroup_id = socket->cgroup_id;
  read_tuple(&record->tuple, sk);
  bpf_get_current_comm(record->thread_name, sizeof(record->thread_name));
  record->padding = 0;
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&network_ring));
  return socket;
}

#endif
