// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// TCP of traced processes. An event belongs to the process that owns the socket, learnt in process context (a send, a
// receive, a connect, or the listing of its files) and remembered at the socket; never to the current task.
#ifndef STALLTRACE_TCP_H
#define STALLTRACE_TCP_H

#include "connections.h"
#include "maps.h"
#include "marker.h"
#include "wire/tcp.h"

// The owner and the running sums of a socket of a traced process, kept at the socket: it goes when the socket does.
struct {
  __uint(type, BPF_MAP_TYPE_SK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct st_socket);
} sockets SEC(".maps");

// When the peer established a connection that has no owner yet: the handshake ends in an interrupt, its process is
// known at the first byte. Of the whole host, so old ones make room.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 8192);
  __type(key, u64);  // socket cookie
  __type(value, u64);
} accepted_ns SEC(".maps");

static __always_inline bool is_tcp(struct sock* sk) {
  const u16 family = sk->__sk_common.skc_family;
  return sk->sk_protocol == IPPROTO_TCP && (family == AF_INET || family == AF_INET6);
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

/* include/net/tcp.h, enum tcp_chrono: 1 busy, 2 receive-window limited, 3 send-buffer limited; the running one is
 * not in its sum yet (net/ipv4/tcp.c, tcp_get_info_chrono_stats). */
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

// The owner of a connection is now known: tells when its peer established it, if it did.
static __always_inline void emit_accept(struct sock* sk, const struct st_socket* socket) {
  const u64 cookie = socket->cookie;
  const u64* accepted = bpf_map_lookup_elem(&accepted_ns, &cookie);
  if (accepted) {
    emit_event_at(*accepted, sk, socket, ST_TCP_ACCEPT, 0, 0, 0);
    bpf_map_delete_elem(&accepted_ns, &cookie);
  }
}

static __always_inline void emit_sample(struct sock* sk, struct st_socket* socket, u64 now) {
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

// Spans that have been silent since before this are ended by the next listing. Set by user space.
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

// A connection is known by its addresses once it has both.
static __always_inline void note_socket(struct sock* sk, const struct st_socket* socket) {
  struct st_tuple tuple;
  read_tuple(&tuple, sk);
  if (tuple.source_port && tuple.destination_port) {
    note_connection(&tuple, socket);
  }
}

// Remembers the owner of a socket and tells user space of the connection. Process context.
static __always_inline struct st_socket* adopt_socket(struct sock* sk, u64 id, u64 cgroup_id) {
  struct st_socket* socket = bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (!socket) {
    count_loss(ST_LOSS_SOCKET_STATE);
    return NULL;
  }
  socket->cookie = bpf_get_socket_cookie(sk);
  socket->tgid = id >> 32;
  socket->tid = (u32)id;
  socket->cgroup_id = cgroup_id;
  note_socket(sk, socket);
  struct st_socket_seen* record = bpf_ringbuf_reserve(&network_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_NETWORK);
    return socket;
  }
  fill_header(&record->header, ST_RECORD_SOCKET, sizeof(*record), bpf_ktime_get_ns(), socket->tgid, socket->tid);
  record->cookie = socket->cookie;
  record->cgroup_id = cgroup_id;
  read_tuple(&record->tuple, sk);
  bpf_get_current_comm(record->thread_name, sizeof(record->thread_name));
  record->padding = 0;
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&network_ring));
  return socket;
}

// The state of a socket that a traced process is known to own; in any context.
static __always_inline struct st_socket* owned_socket(struct sock* sk) {
  return bpf_sk_storage_get(&sockets, sk, 0, 0);
}

static __always_inline void transferred(struct sock* sk, int bytes, bool is_send) {
  if (bytes <= 0 || !is_tcp(sk)) {
    return;  // half of a poller's receives find nothing
  }
  struct st_process* process = process_of(bpf_get_current_task_btf());
  if (!process) {
    return;
  }
  const u64 id = bpf_get_current_pid_tgid();
  struct st_socket* socket = owned_socket(sk);
  if (!socket) {
    socket = adopt_socket(sk, id, process->cgroup_id);
    if (!socket) {
      return;
    }
    emit_accept(sk, socket);
  }
  const u64 now = bpf_ktime_get_ns();
  if (socket->tid != (u32)id || !socket->thread_known) {
    char name[ST_COMM_LEN];
    bpf_get_current_comm(name, sizeof(name));
    socket->by_nccl = name[0] == 'N' && name[1] == 'C' && name[2] == 'C' && name[3] == 'L';
    socket->thread_known = 1;
  }
  socket->tgid = id >> 32;
  socket->tid = (u32)id;
  __sync_fetch_and_add(&process->net_bytes, bytes);
  process->last_net_ns = now;
  note_transfer(bpf_get_current_task_btf(), socket, bytes, is_send, now);
  if (socket->by_nccl) {
    process->last_nccl_net_ns = now;
  }
  struct st_span_state* span = &socket->spans[is_send ? 1 : 0];
  if (span->calls && (now - span->last_ns > config.span_gap_ns || now - span->start_ns > config.span_max_ns)) {
    emit_span(socket, span, is_send);
    span->calls = 0;
  }
  if (!span->calls) {
    span->start_ns = now;
    span->bytes = 0;
  }
  span->last_ns = now;
  span->bytes += bytes;
  span->calls += 1;
  span->tid = (u32)id;
  if (now - socket->last_sample_ns >= config.sample_gap_ns) {
    emit_sample(sk, socket, now);
  }
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(sock_send_length, struct sock* sk, int bytes) {
  transferred(sk, bytes, true);
  return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length, struct sock* sk, int bytes, int flags) {
  if (!(flags & 2 /* MSG_PEEK */)) {
    transferred(sk, bytes, false);
  }
  return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock* sk, struct sk_buff* skb) {
  struct st_socket* socket = owned_socket(sk);
  if (!socket) {
    return 0;
  }
  struct tcp_skb_cb cb = {};
  bpf_core_read(&cb.seq, sizeof(cb.seq), &((struct tcp_skb_cb*)&skb->cb[0])->seq);
  emit_event(sk, socket, ST_TCP_RETRANSMIT,
             BPF_CORE_READ_BITFIELD_PROBED((struct tcp_sock*)sk, inet_conn.icsk_ca_state), cb.seq, skb->len);
  const u64 now = bpf_ktime_get_ns();
  if (now - socket->last_sample_ns >= config.sample_gap_ns / 8) {
    emit_sample(sk, socket, now);
  }
  return 0;
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(tcp_cong_state_set, struct sock* sk, u8 state) {
  struct st_socket* socket = owned_socket(sk);
  if (!socket) {
    return 0;
  }
  const u8 before = BPF_CORE_READ_BITFIELD_PROBED((struct tcp_sock*)sk, inet_conn.icsk_ca_state);
  if (before != state) {
    emit_event(sk, socket, ST_TCP_CONGESTION_STATE, state, 0, 0);
  }
  return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(tcp_send_reset, struct sock* sk) {
  if (!sk) {
    return 0;  // an answer to a segment that has no socket
  }
  struct st_socket* socket = owned_socket(sk);
  if (socket) {
    emit_event(sk, socket, ST_TCP_RESET_SENT, 0, 0, 0);
  }
  return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(tcp_receive_reset, struct sock* sk) {
  struct st_socket* socket = owned_socket(sk);
  if (socket) {
    emit_event(sk, socket, ST_TCP_RESET_RECEIVED, 0, 0, 0);
  }
  return 0;
}

SEC("tp_btf/inet_sk_error_report")
int BPF_PROG(inet_sk_error_report, struct sock* sk) {
  if (!is_tcp(sk)) {
    return 0;
  }
  struct st_socket* socket = owned_socket(sk);
  if (socket) {
    emit_event(sk, socket, ST_TCP_SOCKET_ERROR, sk->sk_err, 0, 0);
  }
  return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, struct sock* sk, int before, int after) {
  if (!is_tcp(sk)) {
    return 0;
  }
  if (after == TCP_SYN_SENT) {  // connect(): process context
    const struct st_process* process = process_of(bpf_get_current_task_btf());
    if (process) {
      adopt_socket(sk, bpf_get_current_pid_tgid(), process->cgroup_id);
    }
    return 0;
  }
  struct st_socket* socket = owned_socket(sk);
  if (!socket) {
    const u64 cookie = bpf_get_socket_cookie(sk);
    if (after == TCP_ESTABLISHED && before == TCP_SYN_RECV) {
      const u64 now = bpf_ktime_get_ns();
      bpf_map_update_elem(&accepted_ns, &cookie, &now, BPF_ANY);
    } else if (after == TCP_CLOSE) {
      bpf_map_delete_elem(&accepted_ns, &cookie);
    }
    return 0;
  }
  end_spans(socket, ~0ULL);  // of an orphan that lingers nobody would ask again
  if (after == TCP_ESTABLISHED) {
    note_socket(sk, socket);
    emit_event(sk, socket, before == TCP_SYN_SENT ? ST_TCP_CONNECT : ST_TCP_ACCEPT, 0, 0, 0);
  } else if (after == TCP_CLOSE) {
    const bool never_open = before == TCP_SYN_SENT || before == TCP_SYN_RECV;
    if (!never_open) {
      emit_sample(sk, socket, bpf_ktime_get_ns());
    }
    emit_event(sk, socket, never_open ? ST_TCP_CONNECT_FAILED : ST_TCP_CLOSE, sk->sk_err, 0, 0);
  }
  return 0;
}

// Walks the TCP sockets of a process through its open files: the only way to those opened before tracing, in whatever
// network namespace, and the sample of those that are silent.
SEC("iter/task_file")
int list_sockets(struct bpf_iter__task_file* ctx) {
  struct task_struct* task = ctx->task;
  struct file* file = ctx->file;
  if (!task || !file) {
    return 0;
  }
  const struct st_process* process = process_of(task);
  if (!process) {
    return 0;
  }
  struct socket* file_socket = bpf_sock_from_file(file);
  if (!file_socket) {
    return 0;
  }
  struct sock* sk = file_socket->sk;
  if (!sk || !is_tcp(sk)) {
    return 0;
  }
  const u8 state = sk->__sk_common.skc_state;
  if (state == TCP_LISTEN || state == TCP_CLOSE) {
    return 0;
  }
  struct st_socket* socket = owned_socket(sk);
  if (!socket) {
    socket = bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!socket) {
      count_loss(ST_LOSS_SOCKET_STATE);
      return 0;
    }
    socket->cookie = bpf_get_socket_cookie(sk);
    socket->tgid = task->tgid;
    socket->tid = task->tgid;
    socket->cgroup_id = process->cgroup_id;
    note_socket(sk, socket);
    emit_accept(sk, socket);
  }
  end_spans(socket, idle_before_ns);
  struct st_socket_listing listing = {};
  fill_header(&listing.header, ST_RECORD_SOCKET, sizeof(listing), bpf_ktime_get_ns(), task->tgid, task->pid);
  listing.cookie = socket->cookie;
  listing.fd = ctx->fd;
  read_tuple(&listing.tuple, sk);
  read_metrics(&listing.metrics, sk);
  bpf_seq_write(ctx->meta->seq, &listing, sizeof(listing));
  return 0;
}

#endif
