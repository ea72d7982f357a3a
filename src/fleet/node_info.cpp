// SPDX-License-Identifier: Apache-2.0
#include "fleet/node_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "serve/http/api.h"
#include "serve/json/json.h"

namespace stalltrace::fleet {
namespace {

using serve::Json;

constexpr int kClockQuestions = 8;                         // the first is slower: the server's thread wakes up
constexpr int64_t kLongestForClocksNs = kNsPerSecond / 2;  // a node that is slow has more to answer

std::unexpected<Error> other_form() {
  return fail("it describes itself in a form that is not known", "is it 'stalltrace serve' that listens there?",
              ErrorKind::kCorrupt);
}

Status check_version(const Json& json) {
  const Json* api = json.find("api");
  if (api == nullptr || api->integer() == nullptr) {
    return other_form();
  }
  return *api->integer() == serve::kApiVersion
             ? Status()
             : fail(fmt::format("it speaks version {} of the API, and this program version {}", *api->integer(),
                                serve::kApiVersion),
                    "use the same version of stalltrace on both sides", ErrorKind::kUnsupported);
}

std::optional<int64_t> integer_of(const Json* json) {
  const int64_t* value = json == nullptr ? nullptr : json->integer();
  return value == nullptr ? std::nullopt : std::optional(*value);
}

/// A number of bytes or rows: as many as can be added, from a host that may send anything.
int64_t amount_of(const Json* json) {
  constexpr int64_t kMost = int64_t{1} << 50;
  return std::clamp<int64_t>(integer_of(json).value_or(0), 0, kMost);
}

std::string text_of(const Json* json) {
  const std::string* value = json == nullptr ? nullptr : json->text();
  return value == nullptr ? "" : *value;
}

RecordingInfo recording_of(const Json& json) {
  RecordingInfo info{.name = text_of(json.find("name")), .problem = text_of(json.find("problem"))};
  const Json* written = json.find("being_written");
  info.being_written = written != nullptr && written->boolean() != nullptr && *written->boolean();
  info.size_bytes = amount_of(json.find("bytes"));
  info.lost_events = amount_of(json.find("lost_events"));
  if (const Json* range = json.find("range")) {
    info.from_ns = integer_of(range->find("from_ns"));
    info.to_ns = integer_of(range->find("to_ns"));
    info.collectives = amount_of(range->find("collectives"));
  }
  if (const Json* nodes = json.find("nodes"); nodes != nullptr && nodes->is_array()) {
    for (const Json& node : *nodes->values()) {
      info.nodes.push_back(text_of(node.find("name")));
    }
  }
  return info;
}

/// Each of two clocks may go wrong by 50 ppm, which is the worst of a quartz: 100 us in a second. A little more, since
/// the age itself is by these clocks.
constexpr int64_t kPartThatDrifts = 9'990;
/// 36 years. No host's clock is off by more, and sums with it do not overflow.
constexpr int64_t kMostOffsetNs = int64_t{1} << 60;

}  // namespace

std::optional<ClockOffset> offset_of(const ClockExchange& reading) {
  const int64_t round_trip_ns = reading.received_ns - reading.sent_ns;
  if (round_trip_ns < 0) {
    return std::nullopt;
  }
  const int64_t middle_ns = reading.sent_ns + round_trip_ns / 2;
  return ClockOffset{.offset_ns = reading.now_ns - middle_ns,
                     .error_ns = round_trip_ns / 2 + 1,
                     .monotonic_offset_ns = reading.monotonic_ns - middle_ns,
                     .boot_id = {}};
}

std::optional<MeasuredClock> measured_clock(const Node& run, const ClockOffset& clock, int64_t now_ns) {
  if (clock.boot_id.empty() || clock.boot_id != run.boot_id) {
    return std::nullopt;
  }
  const int64_t offset_ns = clock.monotonic_offset_ns + run.clock_offset_ns;
  if (std::abs(offset_ns) > kMostOffsetNs) {
    return std::nullopt;
  }
  // By our clock: since then both have gone on.
  const int64_t age_ns = std::max<int64_t>(now_ns - (run.started_ns - offset_ns), 0);
  return MeasuredClock{
      .node_id = run.node_id, .offset_ns = offset_ns, .error_ns = clock.error_ns + age_ns / kPartThatDrifts + 1};
}

Result<NodeInfo> parse_node_info(std::string_view text) {
  auto json = serve::parse_json(text, {.depth = 6, .values = 100'000, .members = 64});
  if (!json) {
    return other_form();
  }
  ST_TRY(check_version(*json));
  const Json* recordings = json->find("recordings");
  if (recordings == nullptr || !recordings->is_array()) {
    return other_form();
  }
  NodeInfo info{.version = text_of(json->find("version")), .utc_error_ns = integer_of(json->find("utc_error_ns"))};
  for (const Json& recording : *recordings->values()) {
    info.recordings.push_back(recording_of(recording));
  }
  return info;
}

Result<std::optional<Question>> InfoConversation::next(Reply* last) {
  if (last == nullptr) {
    return Question{.target = "/v1/node"};
  }
  if (asked_++ == 0) {
    ST_ASSIGN(info, parse_node_info(last->body));
  } else {
    ST_TRY(take_clock(*last));
    clocks_took_ns_ += std::max<int64_t>(last->received_ns - last->sent_ns, 0);
  }
  const bool enough = asked_ > kClockQuestions || clocks_took_ns_ > kLongestForClocksNs;
  return enough ? std::nullopt : std::optional(Question{.target = "/v1/clock"});
}

/// The server's clock was read after the question was sent and before the answer was complete.
Status InfoConversation::take_clock(const Reply& reply) {
  ST_ASSIGN(const Json json, serve::parse_json(reply.body, {.depth = 2, .values = 8, .members = 8}));
  const auto now_ns = integer_of(json.find("now_ns"));
  constexpr int64_t kLatest = INT64_MAX / 4;  // no sum below overflows
  const auto monotonic_ns = integer_of(json.find("monotonic_ns"));
  if (!now_ns || *now_ns < 0 || *now_ns > kLatest || (monotonic_ns && (*monotonic_ns < 0 || *monotonic_ns > kLatest))) {
    return other_form();
  }
  const ClockExchange reading{.sent_ns = reply.sent_ns,
                              .received_ns = reply.received_ns,
                              .now_ns = *now_ns,
                              .monotonic_ns = monotonic_ns.value_or(0)};
  std::optional<ClockOffset> offset = offset_of(reading);
  if (offset && (!clock || offset->error_ns < clock->error_ns)) {
    offset->boot_id = monotonic_ns ? text_of(json.find("boot_id")) : "";
    clock = std::move(offset);
  }
  return {};
}

NodesAnswer ask_nodes(std::span<const NodeAddress> nodes, const ClientOptions& options) {
  std::vector<std::unique_ptr<InfoConversation>> asked;
  std::vector<Conversation*> conversations;
  for (size_t i = 0; i < nodes.size(); ++i) {
    asked.push_back(std::make_unique<InfoConversation>());
    conversations.push_back(asked.back().get());
  }
  std::vector<Status> ended = converse(nodes, conversations, options);
  NodesAnswer answer;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (ended[i] && asked[i]->clock) {
      answer.answered.push_back({nodes[i].shown(), std::move(asked[i]->info), *asked[i]->clock});
    } else {
      answer.failed.push_back(
          {nodes[i].shown(), ended[i] ? Error{.what = "it did not give its clock"} : std::move(ended[i].error())});
    }
  }
  return answer;
}

}  // namespace stalltrace::fleet
