// SPDX-License-Identifier: Apache-2.0
// Events of NCCL's profiler interface other than calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/events/event_traits.h"
#include "model/events/ids.h"

namespace stalltrace {

/// What the step of a proxy operation waited for when last observed.
enum class ProxyWait : uint8_t {
  kNone,     // nothing, or not reported
  kGpu,      // the GPU: data to send, or room to receive into
  kPeer,     // the receiver's readiness: it has not announced room yet
  kNetwork,  // the transfer itself
};
/// "" (none), "gpu", "peer", "network"
std::string_view to_text(ProxyWait wait);
std::optional<ProxyWait> proxy_wait_from_text(std::string_view text);

/// Steps of one NCCL proxy operation: chunks to or from one peer on one channel, as the profiler plugin reports them
/// (docs/profiler_file.md). A row sums `steps` consecutive steps, or has 1 if each was kept by itself.
struct ProxyStep {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  std::optional<int64_t> duration_ns;  // none while open
  EventId collective_id = 0;           // the collective or point-to-point call that it belongs to; 0: unknown
  CommHash comm_id_hash = 0;
  int32_t pid = 0;
  int32_t tid = 0;
  std::optional<int32_t> rank;  // in the communicator, like the peer
  std::optional<int32_t> peer;
  int32_t channel = 0;
  bool is_send = false;
  int32_t step = 0;  // the first step, from 0
  uint32_t steps = 1;
  uint64_t bytes = 0;
  int64_t gpu_wait_ns = 0;
  int64_t peer_wait_ns = 0;
  int64_t network_wait_ns = 0;
  ProxyWait waits_for = ProxyWait::kNone;  // while open
};

template <>
struct EventTraits<ProxyStep> : StreamTraits<ProxyStep, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "proxy_step";
};

inline constexpr TypeList<ProxyStep> kProfilerTypes;

}  // namespace stalltrace
