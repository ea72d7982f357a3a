// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel/drop_reasons.h"

#include <algorithm>
#include <array>

namespace stalltrace::capture {
namespace {

/// Numbers differ between kernels, names do not.
constexpr std::array<std::string_view, 45> kReported = {
    // rules of the host
    "NETFILTER_DROP",
    "SOCKET_FILTER",
    "BPF_CGROUP_EGRESS",
    "TC_EGRESS",
    "TC_INGRESS",
    "XDP",
    "XFRM_POLICY",
    "SECURITY_HOOK",
    "IP_RPFILTER",
    // queues and memory
    "CPU_BACKLOG",
    "SOCKET_BACKLOG",
    "SOCKET_RCVBUFF",
    "PROTO_MEM",
    "NOMEM",
    "PFMEMALLOC",
    "FULL_RING",
    "QDISC_DROP",
    "QDISC_OVERLIMIT",
    "QDISC_CONGESTED",
    "CAKE_FLOOD",
    "FQ_BAND_LIMIT",
    "FQ_HORIZON_LIMIT",
    "FQ_FLOW_LIMIT",
    "DUALPI2_STEP_DROP",
    "TCP_OFO_DROP",
    "TCP_OFO_QUEUE_PRUNE",
    "TCP_LISTEN_OVERFLOW",
    "NEIGH_QUEUEFULL",
    // broken packets, missing devices
    "TCP_CSUM",
    "IP_CSUM",
    "SKB_CSUM",
    "IP_INHDR",
    "PKT_TOO_SMALL",
    "PKT_TOO_BIG",
    "HDR_TRUNC",
    "DEV_HDR",
    "DEV_READY",
    "SKB_GSO_SEG",
    "SKB_UCOPY_FAULT",
    // no route or neighbour
    "NEIGH_CREATEFAIL",
    "NEIGH_FAILED",
    "NEIGH_DEAD",
    "IP_OUTNOROUTES",
    "IP_INNOROUTES",
    "RECURSION_LIMIT",
};

}  // namespace

bool is_recorded_drop_reason(std::string_view reason) {
  return std::ranges::find(kReported, reason) != kReported.end();
}

}  // namespace stalltrace::capture
