// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Bytes that traced processes send and receive over TCP, summed to spans; the first transfer makes the process its
// socket's owner. The hook is the tracepoints sock_send_length and sock_recv_length (Linux 6.3), else the exits of
// tcp_sendmsg and tcp_recvmsg by fexit, else by kprobes at their entry and return (arm64 before 6.4 has no fexit). User
// space loads one of them.
#ifndef STALLTRACE_TRANSFERS_H
#define STALLTRACE_TRANSFERS_H

#include "marker.h"
#include "sockets.h"

#define MSG_PEEK 2

static __always_inline bool is_tcp(struct sock* sk) {
  const u16 family = sk->__sk_common.skc_family;
  return sk->sk_protocol == IPPROTO_TCP && (family == AF_INET || family == AF_INET6);
}

// Called in process context, for a TCP socket, with bytes > 0: half of a poller's receives find nothing.
static __always_inline void transferred(struct sock* sk, u32 bytes, bool is_send) {
  struct task_struct* task = current_task();
  const u64 id = bpf_get_current_pid_tgid();
  struct st_process* process = process_of(task, id >> 32);
  if (!process) {
    return;
  }
  struct st_socket* socket = owned_socket(sk);
  if (!socket) {
    if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_CLOSE) {
      return;  // data that had arrived before its end
    }
    identify(process, task);
    socket = adopt_socket(sk, id, process);
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
  note_transfer(task, (u32)id, socket, bytes, is_send, now);
  if (socket->by_nccl) {
    process->last_nccl_net_ns = now;
  }
  if (config.congestion_by_ack) {
    note_congestion_state(sk, socket, congestion_state(sk));
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
  if (bytes > 0 && is_tcp(sk)) {
    transferred(sk, bytes, true);
  }
  return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length, struct sock* sk, int bytes, int flags) {
  if (bytes > 0 && !(flags & MSG_PEEK) && is_tcp(sk)) {
    transferred(sk, bytes, false);
  }
  return 0;
}

SEC("fexit/tcp_sendmsg")
int BPF_PROG(tcp_sendmsg_exit, struct sock* sk, void* message, u64 size, int result) {
  if (result > 0) {
    transferred(sk, result, true);
  }
  return 0;
}

SEC("fexit/tcp_recvmsg")
int BPF_PROG(tcp_recvmsg_exit, struct sock* sk, void* message, u64 size, int flags, int* address_length, int result) {
  if (result > 0 && !(flags & MSG_PEEK)) {
    transferred(sk, result, false);
  }
  return 0;
}

// The same before Linux 5.19, with one more parameter.
SEC("fexit/tcp_recvmsg")
int BPF_PROG(tcp_recvmsg_nonblock_exit, struct sock* sk, void* message, u64 size, int nonblock, int flags,
             int* address_length, int result) {
  if (result > 0 && !(flags & MSG_PEEK)) {
    transferred(sk, result, false);
  }
  return 0;
}

// The send or receive that a thread of a traced process is in. They are not nested.
struct socket_call {
  u64 sk;
  u64 peeks;
};
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ST_TRACED_THREADS);
  __type(key, u32);
  __type(value, struct socket_call);
} socket_calls SEC(".maps");

static __always_inline int enter_socket_call(u64 sk, bool peeks) {
  const u64 id = bpf_get_current_pid_tgid();
  const u32 tid = (u32)id;
  if (process_of(current_task(), id >> 32)) {
    const struct socket_call call = {.sk = sk, .peeks = peeks};
    if (bpf_map_update_elem(&socket_calls, &tid, &call, BPF_ANY)) {
      count_loss(ST_LOSS_THREAD_STATE);
    }
  }
  return 0;
}

static __always_inline int leave_socket_call(int result, bool is_send) {
  const u32 tid = (u32)bpf_get_current_pid_tgid();
  const struct socket_call* call = bpf_map_lookup_elem(&socket_calls, &tid);
  if (!call) {
    return 0;
  }
  struct sock* sk = (struct sock*)call->sk;
  if (result > 0 && !call->peeks) {
    transferred(sk, result, is_send);
  }
  bpf_map_delete_elem(&socket_calls, &tid);
  return 0;
}

SEC("kprobe/tcp_sendmsg")
int tcp_sendmsg_probe(const struct st_registers* registers) {
  return enter_socket_call(ST_FIRST_ARGUMENT(registers), false);
}

SEC("kretprobe/tcp_sendmsg")
int tcp_sendmsg_return_probe(const struct st_registers* registers) {
  return leave_socket_call((int)ST_RETURN_VALUE(registers), true);
}

SEC("kprobe/tcp_recvmsg")
int tcp_recvmsg_probe(const volatile struct st_registers* registers) {
  // Volatile: the verifier requires constant offsets, and can't follow an address that depends on a value.
  const u64 fourth = ST_FOURTH_ARGUMENT(registers);
  const u64 fifth = ST_FIFTH_ARGUMENT(registers);
  const u64 flags = config.recvmsg_arguments == 5 ? fourth : fifth;
  return enter_socket_call(ST_FIRST_ARGUMENT(registers), flags & MSG_PEEK);
}

SEC("kretprobe/tcp_recvmsg")
int tcp_recvmsg_return_probe(const struct st_registers* registers) {
  return leave_socket_call((int)ST_RETURN_VALUE(registers), false);
}

#endif
