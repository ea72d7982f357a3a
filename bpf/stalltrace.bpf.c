// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The kernel side in one object: a file per probe family, sharing the maps of maps.h.
#include "collective.h"
#include "host_drops.h"
#include "lifetimes.h"
#include "marker.h"
#include "python.h"
#include "scheduler.h"
#include "socket_listing.h"
#include "tcp.h"

// Reads the clock tick counter, for user space to measure CONFIG_HZ: connection clocks count in ticks. Never attached;
// user space runs it with BPF_PROG_TEST_RUN, which supports raw tracepoint programs from Linux 5.10 on.
SEC("raw_tp/sys_enter")
int read_jiffies(void* ctx) { return (int)(bpf_jiffies64() & 0x7fffffff); }

char program_license[] SEC("license") = "Dual BSD/GPL";
