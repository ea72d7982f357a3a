// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Events of TCP connections of traced processes: retransmits, congestion states, resets, errors, connects, closes.
#ifndef STALLTRACE_TCP_H
#define STALLTRACE_TCP_H

#include "sockets.h"
#include "transfers.h"

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock* sk, struct sk_buff* skb) {
  struct st_socket* socket = owned_socket(sk);
  if (!socket) {
    return 0;
  }
  const u8 state = congestion_state(sk);
  note_congestion_state(sk, socket, state);
  struct tcp_skb_cb cb = {};
  bpf_core_read(&cb.seq, sizeof(cb.seq), &((struct tcp_skb_cb*)&skb->cb[0])->seq);
  emit_event(sk, socket, ST_TCP_RETRANSMIT, state, cb.seq, skb->len);
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
  if (congestion_state(sk) != state) {
    emit_event(sk, socket, ST_TCP_CONGESTION_STATE, state, 0, 0);
  }
  return 0;
}

// Runs for every segment that an established connection receives, before it is processed. Where tcp_cong_state_set is
// missing (before Linux 5.19), the start of a state is seen at the retransmission that follows at once; a state ended
// by an acknowledgement is seen at the next segment, transfer or listing, whichever comes first.
SEC("tp_btf/tcp_probe")
int BPF_PROG(tcp_probe, struct sock* sk) {
  struct st_socket* socket = owned_socket(sk);
  if (socket) {
    note_congestion_state(sk, socket, congestion_state(sk));
  }
  return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(tcp_send_reset, struct sock* sk) {
  if (!sk) {
    return 0;  // the answer to a segment without a socket
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
    const u64 id = bpf_get_current_pid_tgid();
    struct task_struct* task = current_task();
    struct st_process* process = process_of(task, id >> 32);
    if (process) {
      identify(process, task);
      forget_socket(sk);  // state of an earlier socket at this address
      adopt_socket(sk, id, process);
    }
    return 0;
  }
  if (before == TCP_LISTEN && after == TCP_SYN_RECV) {
    forget_socket(sk);  // the same: this is a new connection's socket
    return 0;
  }
  struct st_socket* socket = owned_socket(sk);
  if (!socket) {
    const u64 key = socket_key(sk);
    if (after == TCP_ESTABLISHED && before == TCP_SYN_RECV) {
      const u64 now = bpf_ktime_get_ns();
      bpf_map_update_elem(&accepted_ns, &key, &now, BPF_ANY);
    } else if (after == TCP_CLOSE) {
      bpf_map_delete_elem(&accepted_ns, &key);
    }
    return 0;
  }
  end_spans(socket, ~0ULL);  // nothing would list a lingering orphan again
  if (after == TCP_ESTABLISHED) {
    note_socket(sk, socket);
    emit_event(sk, socket, before == TCP_SYN_SENT ? ST_TCP_CONNECT : ST_TCP_ACCEPT, 0, 0, 0);
  } else if (after == TCP_CLOSE) {
    const bool never_open = before == TCP_SYN_SENT || before == TCP_SYN_RECV;
    if (!never_open) {
      emit_sample(sk, socket, bpf_ktime_get_ns());
    }
    emit_event(sk, socket, never_open ? ST_TCP_CONNECT_FAILED : ST_TCP_CLOSE, sk->sk_err, 0, 0);
    connection_closed(socket);
    forget_socket(sk);
  }
  return 0;
}

#endif
