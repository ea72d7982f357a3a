/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* TCP connections of traced processes. header.tgid is always the socket's owner. */
#ifndef STALLTRACE_WIRE_TCP_H
#define STALLTRACE_WIRE_TCP_H

#include "wire/header.h"

struct st_tuple {
  __u8 source[16]; /* IPv4 in the first four bytes, network order */
  __u8 destination[16];
  __u16 source_port; /* host order */
  __u16 destination_port;
  __u16 family;
  __u16 padding;
  __u32 netns;
};

/* stalltrace::TcpEventKind; src/capture/decode/tcp/network_tracker.cpp asserts that the values agree. */
enum st_tcp_event_kind {
  ST_TCP_RETRANSMIT = 0,
  ST_TCP_CONGESTION_STATE,
  ST_TCP_RESET_SENT,
  ST_TCP_RESET_RECEIVED,
  ST_TCP_CONNECT,
  ST_TCP_ACCEPT,
  ST_TCP_CLOSE,
  ST_TCP_SOCKET_ERROR,
  ST_TCP_CONNECT_FAILED,
};

struct st_tcp_event {
  struct st_header header;
  __u64 cookie;
  __u64 cgroup_id;
  struct st_tuple tuple;
  __u32 sequence;
  __u32 length;
  __s32 state;
  __u16 kind; /* enum st_tcp_event_kind */
  __u16 padding;
  __u32 padding2;
};

struct st_tcp_metrics {
  __u64 bytes_acked;
  __u64 bytes_received;
  __u32 srtt_us; /* already shifted: microseconds */
  __u32 cwnd;
  __u32 packets_out;
  __u32 retrans_out;
  __u32 lost_out;
  __u32 total_retrans;
  __u32 dsack_dups;
  __u32 mss;
  __u32 unacked_bytes;
  __u32 notsent_bytes;
  __u32 unread_bytes;
  __u32 snd_wnd;
  __u32 rcv_wnd;
  __u32 busy_jiffies; /* includes the next two */
  __u32 receiver_limited_jiffies;
  __u32 sndbuf_limited_jiffies;
  __u8 ca_state;
  __u8 retransmits;
  __u8 backoff;
  __u8 tcp_state;
  __u32 padding;
};

struct st_tcp_sample {
  struct st_header header;
  __u64 cookie;
  struct st_tcp_metrics metrics;
};

/* A burst in one direction: header.time_ns is its start, header.tid the last thread. */
struct st_net_span {
  struct st_header header;
  __u64 cookie;
  __u64 end_ns;
  __u64 bytes;
  __u32 calls;
  __u32 is_send;
};

/* A connection seen for the first time by its owner. */
struct st_socket_seen {
  struct st_header header;
  __u64 cookie;
  __u64 cgroup_id;
  struct st_tuple tuple;
  char thread_name[ST_COMM_LEN];
  __u32 padding;
};

/* The task_file iterator's record of a process's TCP socket; a sample if it has a cookie. */
struct st_socket_listing {
  struct st_header header;
  __u64 cookie;
  struct st_tuple tuple;
  __u32 fd;
  struct st_tcp_metrics metrics;
};

/* Whether a socket has an entry in the map `connections`. */
enum st_noted {
  ST_NOTED_NOT = 0,
  ST_NOTED,
  ST_NOTED_REFUSED, /* its user has too many */
};

struct st_span_state {
  __u64 start_ns;
  __u64 last_ns;
  __u64 bytes;
  __u32 calls;
  __u32 tid;
};

/* Value of the map `sockets`, stored with the socket. */
struct st_socket {
  __u64 cookie;
  __u32 tgid;
  __u32 tid;
  __u64 cgroup_id;
  __u64 last_sample_ns;
  __u16 thread_known;            /* by_nccl is valid for thread `tid` */
  __u16 noted;                   /* enum st_noted */
  __u32 by_nccl;                 /* its name begins with "NCCL" */
  __u32 congestion_state;        /* latest seen; only with config.congestion_by_ack */
  __u32 user;                    /* st_process.user, of its owner */
  struct st_span_state spans[2]; /* 0 receive, 1 send */
  __u64 moved[2];                /* bytes by direction, while a plugin's marker is probed */
};

ST_STATIC_ASSERT(sizeof(struct st_tuple) == 44, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_tcp_event) == 104, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_tcp_metrics) == 88, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_tcp_sample) == 120, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_net_span) == 56, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_socket_seen) == 104, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_socket_listing) == 168, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_span_state) == 32, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_socket) == 128, "wire layout");

#endif
