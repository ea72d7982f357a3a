// SPDX-License-Identifier: Apache-2.0
// The tests of one directed pair: this host to a peer's responder, on the calling thread.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "preflight/peers/endpoint.h"
#include "preflight/peers/measured.h"

namespace stalltrace::preflight {

/// A peer's responder.
struct Peer {
  Endpoint tcp;
  Endpoint udp;
  std::string secret;
};

/// What one flow may cost the network.
struct FlowLimits {
  int64_t streams = 4;
  int64_t bytes = 1LL << 30;      // of all streams
  int64_t time_ns = 300'000'000;  // the sender stops after it, and discards what was not sent
  int64_t mbit = 0;               // of all streams; 0: as fast as TCP allows
};

/// Connects and measures round trips: `reach`, its detail and `latency`. Reached is what sends back random bytes. Takes
/// 3 s where nothing answers.
void test_reach(const Peer& peer, PairResult& result);

/// Finds the longest IP packet that arrives, up to `interface_mtu`, by UDP packets that no router may split (DF). Two
/// packets where the whole length passes, some hundred (100 kB) and half a second where it does not.
PathMtu test_path_mtu(const Peer& peer, int64_t interface_mtu, int64_t round_trip_ns);

enum class Segments : uint8_t { kFull, kSmall };
/// Sends for a bounded time. Small segments are those that every path carries. Errors: errno of a connection that could
/// not be opened.
std::expected<Flow, int> test_flow(const Peer& peer, const FlowLimits& limits, Segments segments = Segments::kFull);

/// The same with full segments: `alone`, or `flow_reach` and its detail.
void test_alone(const Peer& peer, const FlowLimits& limits, PairResult& result);

}  // namespace stalltrace::preflight
