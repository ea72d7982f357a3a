// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/collectives/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "preflight/peers/collectives/operations.h"
#include "preflight/peers/messages.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostNumber = INT64_MAX / 4;
constexpr size_t kIdDigits = 256;  // of ncclUniqueId, 128 bytes

constexpr std::array<std::string_view, 4> kSteps{"load", "id", "connect", "run"};
constexpr std::array<std::string_view, 4> kStates{"done", "error", "unfinished", "ended"};

/// Where the name is in the list; its size: nowhere.
template <size_t kSize>
size_t index_of(const std::array<std::string_view, kSize>& names, const std::string& name) {
  return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
}

bool flag_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

/// Cuts the next word off `rest`.
std::string_view next_word(std::string_view& rest) {
  const size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

int64_t next_number(std::string_view& rest) {
  return std::clamp<int64_t>(parse_integer(next_word(rest)).value_or(0), 0, kMostNumber);
}

}  // namespace

bool is_unique_id(std::string_view id) {
  return id.size() == kIdDigits &&
         std::ranges::all_of(id, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

Json to_json(const CollectiveOrder& order) {
  Json message{
      {"order", "collective"}, {"step", kSteps[static_cast<size_t>(order.step)]}, {"limit_ns", order.limit_ns}};
  switch (order.step) {
    case CollectiveOrder::Step::kLoad:
      message["device"] = order.device;
      break;
    case CollectiveOrder::Step::kId:
      break;
    case CollectiveOrder::Step::kConnect:
      message["ranks"] = order.ranks;
      message["rank"] = order.rank;
      message["bytes"] = order.bytes;
      message["id"] = order.id;
      break;
    case CollectiveOrder::Step::kRun:
      message["operation"] = collective_operations()[order.operation].name;
      message["bytes"] = order.bytes;
      message["calls"] = order.calls;
      message["check"] = order.check;
      break;
  }
  return message;
}

Result<CollectiveOrder> collective_order_from_json(const Json& message) {
  const auto no_order = [](std::string_view what) {
    return fail("an order to make a collective has no valid " + std::string(what),
                "start the same version on all nodes", ErrorKind::kCorrupt);
  };
  const size_t step = index_of(kSteps, text_member(message, "step"));
  if (step == kSteps.size()) {
    return no_order("step");
  }
  CollectiveOrder order{.step = static_cast<CollectiveOrder::Step>(step),
                        .limit_ns = number_member(message, "limit_ns", 1, kLongestStepNs),
                        .device = number_member(message, "device", 0, kMostRanks),
                        .ranks = number_member(message, "ranks", 0, kMostRanks),
                        .rank = number_member(message, "rank", 0, kMostRanks),
                        .bytes = number_member(message, "bytes", 0, kMostCollectiveBytes),
                        .id = text_member(message, "id"),
                        .calls = number_member(message, "calls", 1, kMostCalls),
                        .check = flag_member(message, "check")};
  if (order.step == CollectiveOrder::Step::kConnect && (order.rank >= order.ranks || !is_unique_id(order.id))) {
    return no_order("rank or id");
  }
  if (order.step == CollectiveOrder::Step::kRun) {
    const auto operation = find_operation(text_member(message, "operation"));
    if (!operation) {
      return no_order("operation");
    }
    order.operation = *operation;
  }
  return order;
}

std::string line_of(const CollectiveOrder& order, const std::string& library) {
  switch (order.step) {
    case CollectiveOrder::Step::kLoad:
      return fmt::format("load {}{}{}\n", order.device, library.empty() ? "" : " ", library);
    case CollectiveOrder::Step::kId:
      return "id\n";
    case CollectiveOrder::Step::kConnect:
      return fmt::format("connect {} {} {} {}\n", order.ranks, order.rank, order.bytes, order.id);
    case CollectiveOrder::Step::kRun:
      return fmt::format("run {} {} {} {}\n", collective_operations()[order.operation].name, order.bytes, order.calls,
                         order.check ? 1 : 0);
  }
  return {};
}

Json to_json(const CollectiveAnswer& answer) {
  Json message{{"state", kStates[static_cast<size_t>(answer.state)]}};
  if (answer.state != CollectiveAnswer::State::kDone) {
    message["detail"] = answer.detail;
    message["launched"] = answer.launched;
    return message;
  }
  message["version"] = answer.version;
  message["library"] = answer.library;
  message["id"] = answer.id;
  message["duration_ns"] = answer.duration_ns;
  message["wrong"] = answer.wrong;
  message["bytes"] = answer.bytes;
  return message;
}

CollectiveAnswer collective_answer_from_json(const Json& message) {
  const size_t state = index_of(kStates, text_member(message, "state"));
  if (state == kStates.size()) {
    return {.detail = "its answer is none; start the same version on all nodes"};
  }
  return {.state = static_cast<CollectiveAnswer::State>(state),
          .detail = text_member(message, "detail"),
          .launched = flag_member(message, "launched"),
          .version = number_member(message, "version", 0, kMostNumber),
          .library = text_member(message, "library"),
          .id = text_member(message, "id"),
          .duration_ns = number_member(message, "duration_ns", 0, kMostNumber),
          .wrong = number_member(message, "wrong", 0, kMostNumber),
          .bytes = number_member(message, "bytes", 0, kMostNumber)};
}

std::optional<CollectiveAnswer> answer_of_line(const CollectiveOrder& order, std::string_view line) {
  const std::string_view word = next_word(line);
  if (word == "launched") {
    return std::nullopt;
  }
  if (word == "error") {
    return CollectiveAnswer{.detail = std::string(line)};
  }
  CollectiveAnswer answer{.state = CollectiveAnswer::State::kDone};
  switch (order.step) {
    case CollectiveOrder::Step::kLoad:
      answer.version = next_number(line);
      next_word(line);  // how many devices there are
      answer.library = line;
      break;
    case CollectiveOrder::Step::kId:
      answer.id = line;
      break;
    case CollectiveOrder::Step::kConnect:
      answer.duration_ns = next_number(line);
      break;
    case CollectiveOrder::Step::kRun:
      answer.duration_ns = next_number(line);
      answer.wrong = next_number(line);
      answer.bytes = next_number(line);
      break;
  }
  return answer;
}

}  // namespace stalltrace::preflight
