// SPDX-License-Identifier: Apache-2.0
// What tests between two nodes measured. Directed: `from` is the node that sent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace::preflight {

/// How the connection to a peer's responder ended.
enum class Reach : uint8_t {
  kReached,
  kRefused,      // a reset: nothing listens there, or a firewall rejects
  kTimedOut,     // no answer at all
  kUnreachable,  // this host or a router has no way there, or a firewall says so
  kBroken,       // connected, and then no answer from our responder
  kNotTested,    // the node that was to test it has stopped answering
};
std::string_view to_text(Reach reach);

struct Latency {
  int64_t median_ns = 0;  // round trip of 64 bytes, with both programs' share
  int64_t max_ns = 0;
  int64_t round_trips = 0;
};

struct PathMtu {
  int64_t own = 0;       // of the sending interface: the longest packet that was tried
  int64_t largest = 0;   // the longest IP packet that arrived; 0: no UDP packet did
  int64_t reported = 0;  // the limit that a router's ICMP message gave; 0: there was none
};

/// What was sent for some time over several connections.
struct Flow {
  int64_t bytes = 0;  // acknowledged, after the first quarter of the time
  int64_t duration_ns = 0;
  int64_t retransmits = 0;  // segments, from the beginning
  int64_t segments = 0;     // sent with data, from the beginning
  double waited = 0;        // share of the time in which this program waited for the network; below: it was the limit
  double receiver = 0;      // share of the time in which the receiver's window was the limit
  [[nodiscard]] double mbit() const {
    return duration_ns > 0 ? 8e3 * static_cast<double>(bytes) / static_cast<double>(duration_ns) : 0;
  }
};

struct PairResult {
  int32_t from = 0;  // index of the node
  int32_t to = 0;
  Reach reach = Reach::kNotTested;
  std::string reach_detail;  // the kernel's own text of an error
  std::optional<Latency> latency;
  std::optional<PathMtu> mtu;
  /// How the connections of `alone` ended, of a peer that was reached. kReached: as they should, or there was no flow
  /// to send. kNotTested: the node that tests could not make them.
  Reach flow_reach = Reach::kReached;
  std::string flow_detail;    // the kernel's own text of an error
  std::optional<Flow> alone;  // each node in one pair; of two tests the faster one, where it was slow
  std::optional<Flow> small;  // with small segments; only where nothing of `alone` arrived
  /// At half the rate of `alone`, only where that one sent segments again: a flow as fast as TCP allows fills queues
  /// until they drop, a slower one loses only what the way loses. Of two tests, that of `alone`, or else the first
  /// one's.
  std::optional<Flow> half_rate;
  std::optional<Flow> together;  // every node sends to the next, all at once
  /// Whether nothing of `alone` arrived.
  [[nodiscard]] bool stuck() const { return alone && (alone->bytes == 0 || small); }
};

/// One process of the launch.
struct TestedRank {
  int32_t rank = 0;
  int32_t node = 0;       // index
  int64_t joined_ns = 0;  // after the first one
  /// Of each round of the barrier: from its beginning to this rank's arrival, seen by rank 0. Empty: it did not take
  /// part.
  std::vector<int64_t> arrivals_ns;
};

/// Another node's name, as a node's hosts file and name servers know it.
struct WrongName {
  std::string name;
  std::optional<std::string> address;  // of its own loopback; nothing: the name is not found
};

struct TestedNode {
  std::string name;
  std::string address;    // of its tests
  std::string interface;  // empty: not known
  int64_t mtu = 0;        // of the interface; 0: not known
  int64_t line_mbit = 0;  // the interface's speed; 0: not known, or it has no hardware
  int32_t first_rank = 0;
  std::vector<WrongName> wrong_names;
};

}  // namespace stalltrace::preflight
