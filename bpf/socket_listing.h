// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The iterator that lists the TCP sockets of traced processes: one st_socket_listing for each, to who reads the
// iterator. It runs in the reader's context, when the agent asks, and not in the job.
#ifndef STALLTRACE_SOCKET_LISTING_H
#define STALLTRACE_SOCKET_LISTING_H

#include "sockets.h"

/* include/uapi/linux/stat.h */
#define S_IFMT 0170000
#define S_IFSOCK 0140000

static __always_inline bool is_tcp_by_address(struct sock* sk) {
  const u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
  return BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP && (family == AF_INET || family == AF_INET6);
}

// bpf_sock_from_file is as old as storage at sockets for tracing programs. Before, a socket is reached through its
// file, and must point back to it.
static __always_inline struct sock* sock_of_file(struct file* file) {
  if (config.socket_storage) {
    struct socket* socket = bpf_sock_from_file(file);
    return socket ? socket->sk : NULL;
  }
  if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK) {
    return NULL;
  }
  struct socket* socket = BPF_CORE_READ(file, private_data);
  return socket && BPF_CORE_READ(socket, file) == file ? BPF_CORE_READ(socket, sk) : NULL;
}

// Walks the TCP sockets of a process through its open files: the only way to sockets opened before tracing, in any
// network namespace. It also samples silent ones.
SEC("iter/task_file")
int list_sockets(struct bpf_iter__task_file* ctx) {
  struct task_struct* task = ctx->task;
  struct file* file = ctx->file;
  if (!task || !file) {
    return 0;
  }
  if (config.walks_all_tasks && task->pid != task->tgid) {
    return 0;  // threads share their process's files: one visit is enough
  }
  struct st_process* process = process_of(task, task->tgid);
  if (!process) {
    return 0;
  }
  struct sock* sk = sock_of_file(file);
  if (!sk || !is_tcp_by_address(sk)) {
    return 0;
  }
  const u8 state = BPF_CORE_READ(sk, __sk_common.skc_state);
  if (state == TCP_LISTEN || state == TCP_CLOSE) {
    return 0;
  }
  struct st_socket* socket = owned_socket(sk);
  if (!socket) {
    socket = new_socket(sk);
    if (!socket) {
      count_loss(ST_LOSS_SOCKET_STATE);
      return 0;
    }
    socket->cookie = socket_cookie(sk);
    socket->tgid = task->tgid;
    socket->tid = task->tgid;
    identify(process, task);
    socket->cgroup_id = process->cgroup_id;
    socket->user = process->user;
    emit_accept(sk, socket);
  }
  note_socket(sk, socket);  // again and again: a flood of others' connections takes the place of the oldest
  note_congestion_state(sk, socket, congestion_state(sk));
  end_spans(socket, idle_before_ns);
  struct st_socket_listing listing = {};
  fill_header(&listing.header, ST_RECORD_SOCKET_LISTING, sizeof(listing), bpf_ktime_get_ns(), task->tgid, task->pid);
  listing.cookie = socket->cookie;
  listing.fd = ctx->fd;
  read_tuple(&listing.tuple, sk);
  read_metrics(&listing.metrics, sk);
  bpf_seq_write(ctx->meta->seq, &listing, sizeof(listing));
  return 0;
}

#endif
