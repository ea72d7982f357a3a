// SPDX-License-Identifier: Apache-2.0
// Each link in numbers: what TCP recorded of the connections from one rank to another.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/profiles/job_view.h"

namespace stalltrace::analysis {

struct LinkProfile {
  int32_t src_rank = 0;  // the sender
  int32_t dst_rank = 0;
  int64_t connections = 0;
  FlowIndex example = kNoFlow;  // the connection with the most retransmissions, else the first
  int64_t retransmissions = 0;  // segments that the sender repeated
  int64_t timeouts = 0;         // rises of the sender's count of consecutive timeouts, between samples
  int64_t recovery_ns = 0;      // in congestion state recovery or loss, summed over the connections
  int64_t errors = 0;           // resets, socket errors, refused connections
  int64_t drops = 0;  // packets of these connections that a recorded host dropped, on their way to the receiver
  int64_t samples = 0;
  std::optional<uint64_t> acked_bytes;  // between the samples; none: fewer than two of any connection
  std::optional<int64_t> median_rtt_us;
  std::optional<int64_t> longest_rtt_us;
  std::optional<int64_t> most_unacked_bytes;
};

struct LinkFilter {
  TimeRange range;
  std::optional<int32_t> rank;  // either end
};

/// Links between two ranks, by sender and receiver. Connections whose other end's rank is not known are left out and
/// counted in `left_out`.
Result<std::vector<LinkProfile>> link_profiles(JobView& job, const LinkFilter& filter, int64_t* left_out);

}  // namespace stalltrace::analysis
