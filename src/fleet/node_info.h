// SPDX-License-Identifier: Apache-2.0
// What a node's server says of itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fleet/client.h"
#include "fleet/query.h"
#include "model/events.h"
#include "model/node_clock.h"

namespace stalltrace::fleet {

struct RecordingInfo {
  std::string name;
  std::vector<std::string> nodes;  // their names
  bool being_written = false;
  int64_t size_bytes = 0;
  std::optional<int64_t> from_ns;
  std::optional<int64_t> to_ns;
  int64_t collectives = 0;
  int64_t lost_events = 0;
  std::string problem;  // empty: it can be read
};

struct NodeInfo {
  std::string version;
  std::optional<int64_t> utc_error_ns;  // of its clock, in its own word (serve::HostClock)
  std::vector<RecordingInfo> recordings;
};

/// The answer to GET /v1/node, which is untrusted. An error if it is of another version of the API, or of another form.
Result<NodeInfo> parse_node_info(std::string_view text);

/// A clock minus ours. The true value is within +- error, if it was not set in between; ours (SteadyUtc) never is.
struct ClockOffset {
  int64_t offset_ns = 0;
  int64_t error_ns = 0;
  /// CLOCK_MONOTONIC of the boot, of which recordings are made, minus our clock; with the same error.
  int64_t monotonic_offset_ns = 0;
  std::string boot_id;
};

/// One exchange: what a node reported of its clocks between two times of ours.
struct ClockExchange {
  int64_t sent_ns = 0;
  int64_t received_ns = 0;
  int64_t now_ns = 0;
  int64_t monotonic_ns = 0;
};

/// The node read its clocks after the question was sent and before the answer was complete: the offset is within half
/// of the round trip, however the way there and back share it. None: the answer is older than the question, so that
/// our clock was set, and nothing bounds the offset.
std::optional<ClockOffset> offset_of(const ClockExchange& reading);

/// The times of a recording minus ours, all through it. None: the recording is of another boot, so that nothing is
/// known of its clock; or it says that it is off by more than a clock can be. The offset is that of the moment of
/// asking. The error covers the recording's age since its start, over which two clocks may drift apart by 100 ppm.
/// `now_ns`: by the clock that `clock` was measured with.
std::optional<MeasuredClock> measured_clock(const Node& run, const ClockOffset& clock, int64_t now_ns);

struct NodeAnswer {
  std::string node;  // as it was asked
  NodeInfo info;
  ClockOffset clock;
};

struct NodesAnswer {
  std::vector<NodeAnswer> answered;
  std::vector<FailedNode> failed;
};

/// Asks one node: what it serves, and several times for its clocks, of which the quickest answer counts; fewer times
/// where answers take long.
class InfoConversation final : public Conversation {
 public:
  Result<std::optional<Question>> next(Reply* last) override;

  /// Of a conversation that is over.
  NodeInfo info;
  std::optional<ClockOffset> clock;

 private:
  Status take_clock(const Reply& reply);

  int asked_ = 0;
  int64_t clocks_took_ns_ = 0;
};

/// Asks all, each as InfoConversation does.
NodesAnswer ask_nodes(std::span<const NodeAddress> nodes, const ClientOptions& options);

}  // namespace stalltrace::fleet
