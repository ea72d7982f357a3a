// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The few kernel types that the programs read, with only the fields they read. libbpf relocates every access to the
// running kernel's layout (CO-RE), so order and omissions do not matter; names do. A field that only some kernels have
// is read behind bpf_core_field_exists.
#ifndef STALLTRACE_KERNEL_TYPES_H
#define STALLTRACE_KERNEL_TYPES_H

// libbpf's headers need the kernel's types first.
// clang-format off
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
// clang-format on

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define TASK_COMM_LEN 16

/* include/linux/sched.h */
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_STOPPED_BIT 0x4
#define TASK_TRACED_BIT 0x8

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6

/* include/net/tcp_states.h */
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_CLOSE 7
#define TCP_LISTEN 10

// `value`, or `limit` if that is smaller: a bound that the compiler can't optimise away, so that the verifier sees it.
static __always_inline u64 at_most(u64 value, u64 limit) {
  asm volatile("" : "+r"(value));
  return value > limit ? limit : value;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
  unsigned int inum;
};
typedef struct {
  struct net* net;
} possible_net_t;
struct net {
  struct ns_common ns;
};
struct nsproxy {
  struct net* net_ns;
};
typedef struct {
  int counter;
} atomic_t;
struct signal_struct {
  atomic_t live;
};
// The kernel's account of waits for a CPU, by the run queue's clock; empty without CONFIG_SCHED_INFO.
struct sched_info {
  unsigned long long last_arrival;  // when the task last got a CPU
  unsigned long long last_queued;   // since when it waits for one; 0: it does not wait
};
typedef struct {
  u32 val;
} kuid_t;
struct user_namespace {
  struct user_namespace* parent;
  int level;
  kuid_t owner;
};
struct cred {
  kuid_t uid;
  struct user_namespace* user_ns;
};
struct bpf_local_storage;
struct task_struct {
  int pid;
  int tgid;
  int exit_code;
  u32 in_iowait : 1;
  struct sched_info sched_info;
  u64 start_boottime;
  struct task_struct* group_leader;
  const struct cred* real_cred;
  struct nsproxy* nsproxy;
  struct signal_struct* signal;
  char comm[TASK_COMM_LEN];
  struct bpf_local_storage* bpf_storage;
};

struct in6_addr {
  union {
    u8 u6_addr8[16];
  } in6_u;
};
typedef struct {
  s64 counter;
} atomic64_t;
struct sock_common {
  u32 skc_daddr;
  u32 skc_rcv_saddr;
  __be16 skc_dport;
  u16 skc_num;
  unsigned short skc_family;
  volatile unsigned char skc_state;
  possible_net_t skc_net;
  struct in6_addr skc_v6_daddr;
  struct in6_addr skc_v6_rcv_saddr;
  atomic64_t skc_cookie;
};
struct sock {
  struct sock_common __sk_common;
  u16 sk_protocol;
  int sk_err;
};
struct inet_connection_sock {
  u8 icsk_ca_state : 5;
  u8 icsk_retransmits;
  u8 icsk_backoff;
};
struct tcp_sock {
  struct inet_connection_sock inet_conn;
  u32 srtt_us;
  u32 snd_cwnd;
  u32 packets_out;
  u32 retrans_out;
  u32 lost_out;
  u32 total_retrans;
  u32 dsack_dups;
  u32 mss_cache;
  u64 bytes_acked;
  u64 bytes_received;
  u32 snd_nxt;
  u32 snd_una;
  u32 write_seq;
  u32 rcv_nxt;
  u32 copied_seq;
  u32 snd_wnd;
  u32 rcv_wnd;
  u32 chrono_start;
  u32 chrono_stat[3];
  u8 chrono_type : 2;
};
struct tcp_skb_cb {
  u32 seq;
  u32 end_seq;
};
struct net_device {
  possible_net_t nd_net;
};
struct sk_buff {
  struct net_device* dev;
  char cb[48];
  unsigned int len;
  __be16 protocol;
  u16 network_header;  // from head
  unsigned char* head;
  unsigned char* data;
};
struct file;
struct socket {
  struct file* file;
  struct sock* sk;
};
struct inode {
  u16 i_mode;
};
struct file {
  struct inode* f_inode;
  void* private_data;
};
struct seq_file;
struct bpf_iter_meta {
  struct seq_file* seq;
};
struct bpf_iter__task {
  struct bpf_iter_meta* meta;
  struct task_struct* task;
};
struct bpf_iter__task_file {
  struct bpf_iter_meta* meta;
  struct task_struct* task;
  u32 fd;
  struct file* file;
};

#pragma clang attribute pop

#endif
