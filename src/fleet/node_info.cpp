// SPDX-License-Identifier: Apache-2.0
#include "fleet/node_info.h"

#include <fmt/format.h>

#include <memory>

#include "serve/http/api.h"
#include "serve/json/json.h"

namespace stalltrace::fleet {
namespace {

using serve::Json;

constexpr int kClockQuestions = 8;  // the first is slower: the server's thread wakes up

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

std::string text_of(const Json* json) {
  const std::string* value = json == nullptr ? nullptr : json->text();
  return value == nullptr ? "" : *value;
}

RecordingInfo recording_of(const Json& json) {
  RecordingInfo info{.name = text_of(json.find("name")), .problem = text_of(json.find("problem"))};
  const Json* written = json.find("being_written");
  info.being_written = written != nullptr && written->boolean() != nullptr && *written->boolean();
  info.size_bytes = integer_of(json.find("bytes")).value_or(0);
  info.lost_events = integer_of(json.find("lost_events")).value_or(0);
  if (const Json* range = json.find("range")) {
    info.from_ns = integer_of(range->find("from_ns"));
    info.to_ns = integer_of(range->find("to_ns"));
    info.collectives = integer_of(range->find("collectives")).value_or(0);
  }
  if (const Json* nodes = json.find("nodes"); nodes != nullptr && nodes->is_array()) {
    for (const Json& node : *nodes->values()) {
      info.nodes.push_back(text_of(node.find("name")));
    }
  }
  return info;
}

class InfoConversation final : public Conversation {
 public:
  Result<std::optional<Question>> next(Reply* last) override {
    if (last == nullptr) {
      return Question{.target = "/v1/node"};
    }
    if (asked_++ == 0) {
      ST_ASSIGN(info, parse_node_info(last->body));
    } else {
      ST_TRY(take_clock(*last));
    }
    return asked_ <= kClockQuestions ? std::optional(Question{.target = "/v1/clock"}) : std::nullopt;
  }

  NodeInfo info;
  std::optional<ClockOffset> clock;

 private:
  /// The server's clock was read after the question was sent and before the answer was complete.
  Status take_clock(const Reply& reply) {
    ST_ASSIGN(const Json json, serve::parse_json(reply.body, {.depth = 2, .values = 8, .members = 8}));
    const auto now_ns = integer_of(json.find("now_ns"));
    constexpr int64_t kLatest = INT64_MAX / 4;  // no sum below overflows
    if (!now_ns || *now_ns < 0 || *now_ns > kLatest) {
      return other_form();
    }
    const int64_t round_trip_ns = std::max<int64_t>(reply.received_ns - reply.sent_ns, 0);
    if (!clock || round_trip_ns / 2 + 1 < clock->error_ns) {
      clock = ClockOffset{*now_ns - reply.sent_ns - round_trip_ns / 2, round_trip_ns / 2 + 1};
    }
    return {};
  }

  int asked_ = 0;
};

}  // namespace

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
  NodeInfo info{.version = text_of(json->find("version"))};
  for (const Json& recording : *recordings->values()) {
    info.recordings.push_back(recording_of(recording));
  }
  return info;
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
