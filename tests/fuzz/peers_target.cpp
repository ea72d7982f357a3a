// SPDX-License-Identifier: Apache-2.0
// Fuzzes what the ranks and nodes of a preflight read of each other, by the first byte: the request to a server, lines
// of the connection between rank 0 and a rank, reports. What was read is within limits, and survives another round.
#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "preflight/output.h"
#include "preflight/peers/collectives/messages.h"
#include "preflight/peers/line_channel.h"
#include "preflight/peers/messages.h"
#include "preflight/peers/responder.h"
#include "serve/requests/preflight_request.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using fuzz::require;
using Message = nlohmann::ordered_json;

namespace {

void read_request(std::string_view text) {
  const auto request = serve::parse_preflight_request(text);
  if (!request) {
    require(!request.error().what.empty());
    return;
  }
  if (!request->only_ready) {
    require(request->rank >= 0 && request->rank < request->ranks && request->ranks <= serve::kMostPreflightNodes);
    require(request->port != 0 && request->limit_ms > 0 && request->limit_ms <= serve::kLongestPreflightMs);
    require(request->wait_ms > 0 && request->wait_ms <= serve::kLongestWaitMs && !request->masters.empty());
    require(request->rank != 0 || request->nodes.size() == static_cast<size_t>(request->ranks));
    require(request->missing.size() <= serve::kMostMissingNamed);
  }
  const std::string again = serve::to_json(*request);
  const auto second = serve::parse_preflight_request(again);
  require(second && serve::to_json(*second) == again);
}

void read_message(const Message& message) {
  using namespace preflight;
  if (const auto hello = hello_from_json(message)) {
    require(hello->rank >= 0 && hello->rank <= kMostRanks && hello->world_size >= 0);
    require(hello->tcp_port != 0 && hello->udp_port != 0 && hello->secret.size() == kSecretBytes);
    const Message again = to_json(*hello);
    const auto second = hello_from_json(again);
    require(second && to_json(*second) == again);
    (void)is_admitted(*hello, std::string(2 * kSecretBytes, 'a'));
  }
  if (const auto order = test_order_from_json(message)) {
    require(order->tcp_port != 0 && order->udp_port != 0 && order->secret.size() == kSecretBytes);
    require(order->flow.streams > 0 && order->flow.bytes > 0 && order->flow.time_ns > 0 && order->flow.mbit >= 0);
    const Message again = to_json(*order);
    const auto second = test_order_from_json(again);
    require(second && to_json(*second) == again);
  }
  const PairResult result = pair_result_from_json(message);
  for (const auto* flow : {&result.alone, &result.small, &result.half_rate, &result.together}) {
    require(!*flow ||
            ((*flow)->bytes >= 0 && (*flow)->duration_ns > 0 && (*flow)->waited >= 0 && (*flow)->waited <= 1));
  }
  const Message again = to_json(result);
  require(to_json(pair_result_from_json(again)) == again);
  if (const auto order = collective_order_from_json(message)) {
    require(order->calls > 0 && order->calls <= kMostCalls && order->bytes <= kMostCollectiveBytes);
    require(order->limit_ns > 0 && order->limit_ns <= kLongestStepNs);
    const std::string line = line_of(*order, "");
    require(line.find('\n') == line.size() - 1);  // it is one order for the program
    const Message same = to_json(*order);
    const auto second = collective_order_from_json(same);
    require(second && to_json(*second) == same);
    (void)answer_of_line(*order, text_member(message, "detail"));
  }
  const CollectiveAnswer answer = collective_answer_from_json(message);
  require(answer.duration_ns >= 0 && answer.wrong >= 0 && answer.bytes >= 0);
  require(to_json(collective_answer_from_json(to_json(answer))) == to_json(answer));
  (void)is_welcome(message, std::string(2 * kSecretBytes, 'a'));
}

void read_lines(std::string_view text) {
  std::array<int, 2> ends{-1, -1};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  preflight::LineChannel channel{UniqueFd(ends[0])};
  const UniqueFd other(ends[1]);
  (void)::send(other.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  require(::shutdown(other.get(), SHUT_WR) == 0);
  for (auto message = channel.poll_message(); message && *message; message = channel.poll_message()) {
    require((*message)->is_object());
    read_message(**message);
  }
}

void read_report(std::string_view text) {
  const auto report = preflight::parse_report(text);
  if (!report) {
    return;
  }
  const std::string again = preflight::report_json(*report);
  const auto second = preflight::parse_report(again);
  require(second && preflight::report_json(*second) == again);
  (void)preflight::report_text(*report);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      read_request(text);
      break;
    case 1:
      read_lines(text);
      break;
    default:
      read_report(text);
  }
  return 0;
}
