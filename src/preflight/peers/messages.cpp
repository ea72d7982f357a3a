// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/messages.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "preflight/output.h"
#include "preflight/peers/responder.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMost = INT64_MAX / 4;
constexpr size_t kLongestText = 4096;

constexpr std::array kReaches{Reach::kReached,     Reach::kRefused, Reach::kTimedOut,
                              Reach::kUnreachable, Reach::kBroken,  Reach::kNotTested};

const Json* object_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? &*found : nullptr;
}

Reach reach_member(const Json& message, const char* name) {
  const std::string text = text_member(message, name);
  const auto* known = std::ranges::find(kReaches, text, [](Reach one) { return to_text(one); });
  return known == kReaches.end() ? Reach::kNotTested : *known;
}

double share_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? std::clamp(found->get<double>(), 0.0, 1.0) : 0;
}

std::unexpected<Error> refused(std::string_view what) {
  return fail("a message has no valid " + std::string(what), "start the same version on all nodes",
              ErrorKind::kCorrupt);
}

}  // namespace

std::string_view to_text(Reach reach) {
  switch (reach) {
    case Reach::kReached:
      return "reached";
    case Reach::kRefused:
      return "refused";
    case Reach::kTimedOut:
      return "timed_out";
    case Reach::kUnreachable:
      return "unreachable";
    case Reach::kBroken:
      return "broken";
    case Reach::kNotTested:
      return "not_tested";
  }
  return {};
}

std::string text_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>().substr(0, kLongestText)
                                                     : std::string();
}

int64_t number_member(const Json& object, const char* name, int64_t low, int64_t high) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) {
    return low;
  }
  const auto number =
      found->is_number_unsigned()
          ? static_cast<int64_t>(std::min<uint64_t>(found->get<uint64_t>(), static_cast<uint64_t>(INT64_MAX)))
          : found->get<int64_t>();
  return std::clamp(number, low, high);
}

Json to_json(const Hello& hello) {
  HostReport report = hello.report;
  report.topology = {};  // it is not read there, and with hundreds of devices it is longer than a line may be
  return {{"stalltrace_preflight", kProtocol},
          {"rank", hello.rank},
          {"world_size", hello.world_size},
          {"job", hello.job},
          {"admission", hello.admission},
          {"host", hello.host},
          {"hostname", hello.hostname},
          {"name", hello.node.name},
          {"address", hello.node.address},
          {"interface", hello.node.interface},
          {"mtu", hello.node.mtu},
          {"line_mbit", hello.node.line_mbit},
          {"tcp_port", hello.tcp_port},
          {"udp_port", hello.udp_port},
          {"secret", hello.secret},
          {"report", report_json(report)}};
}

Result<Hello> hello_from_json(const Json& message) {
  if (number_member(message, "stalltrace_preflight", 0, kMost) != kProtocol) {
    return refused("protocol number");
  }
  Hello hello{.rank = static_cast<int32_t>(number_member(message, "rank", -1, kMostRanks)),
              .world_size = static_cast<int32_t>(number_member(message, "world_size", 0, kMostRanks)),
              .job = text_member(message, "job"),
              .admission = text_member(message, "admission"),
              .host = text_member(message, "host"),
              .hostname = text_member(message, "hostname"),
              .node = {.name = text_member(message, "name"),
                       .address = text_member(message, "address"),
                       .interface = text_member(message, "interface"),
                       .mtu = number_member(message, "mtu", 0, 1 << 20),
                       .line_mbit = number_member(message, "line_mbit", 0, 1 << 30)},
              .tcp_port = static_cast<uint16_t>(number_member(message, "tcp_port", 0, UINT16_MAX)),
              .udp_port = static_cast<uint16_t>(number_member(message, "udp_port", 0, UINT16_MAX)),
              .secret = text_member(message, "secret")};
  const auto report = message.find("report");
  if (report == message.end() || !report->is_string()) {
    return refused("report");
  }
  ST_ASSIGN(hello.report, parse_report(report->get_ref<const std::string&>()));
  if (hello.rank < 0 || !Endpoint::of(hello.node.address, 0) || hello.node.address.empty() || hello.tcp_port == 0 ||
      hello.udp_port == 0 || hello.secret.size() != kSecretBytes) {
    return refused("rank, address or port");
  }
  hello.report.host = hello.node.name;
  return hello;
}

Json welcome(const std::string& secret) { return {{"welcome", secret.substr(admission_of(secret).size())}}; }

bool is_welcome(const Json& message, const std::string& secret) {
  return is_secret(text_member(message, "welcome"), secret.substr(admission_of(secret).size()));
}

bool is_admitted(const Hello& hello, const std::string& secret) {
  return is_secret(hello.admission, admission_of(secret));
}

std::string admission_of(const std::string& secret) { return secret.substr(0, secret.size() / 2); }

Json to_json(const TestOrder& order) {
  return {{"order", "test"},
          {"address", order.address},
          {"tcp_port", order.tcp_port},
          {"udp_port", order.udp_port},
          {"secret", order.secret},
          {"flow_only", order.flow_only},
          {"reach_only", order.reach_only},
          {"half_rate", order.half_rate},
          {"interface_mtu", order.interface_mtu},
          {"streams", order.flow.streams},
          {"bytes", order.flow.bytes},
          {"time_ns", order.flow.time_ns},
          {"mbit", order.flow.mbit}};
}

Result<TestOrder> test_order_from_json(const Json& message) {
  TestOrder order{.address = text_member(message, "address"),
                  .tcp_port = static_cast<uint16_t>(number_member(message, "tcp_port", 0, UINT16_MAX)),
                  .udp_port = static_cast<uint16_t>(number_member(message, "udp_port", 0, UINT16_MAX)),
                  .secret = text_member(message, "secret"),
                  .flow_only = message.value("flow_only", Json()) == true,
                  .reach_only = message.value("reach_only", Json()) == true,
                  .half_rate = message.value("half_rate", Json()) == true,
                  .interface_mtu = number_member(message, "interface_mtu", 0, 1 << 20),
                  .flow = {.streams = number_member(message, "streams", 1, 64),
                           .bytes = number_member(message, "bytes", 1, kMost),
                           .time_ns = number_member(message, "time_ns", 1, kMost),
                           .mbit = number_member(message, "mbit", 0, 1 << 30)}};
  if (order.address.empty() || !Endpoint::of(order.address, 0) || order.tcp_port == 0 || order.udp_port == 0 ||
      order.secret.size() != kSecretBytes) {
    return refused("address, port or secret");
  }
  return order;
}

Json to_json(const PairResult& result) {
  Json message{{"reach", to_text(result.reach)}};
  if (!result.reach_detail.empty()) {
    message["reach_detail"] = result.reach_detail;
  }
  if (result.latency) {
    message["latency"] = {{"median_ns", result.latency->median_ns},
                          {"max_ns", result.latency->max_ns},
                          {"round_trips", result.latency->round_trips}};
  }
  if (result.mtu) {
    message["path_mtu"] = {
        {"own", result.mtu->own}, {"largest", result.mtu->largest}, {"reported", result.mtu->reported}};
  }
  if (result.flow_reach != Reach::kReached) {
    message["flow_reach"] = to_text(result.flow_reach);
    message["flow_detail"] = result.flow_detail;
  }
  const auto add_flow = [&](const char* name, const std::optional<Flow>& flow) {
    if (flow) {
      message[name] = {
          {"bytes", flow->bytes},       {"duration_ns", flow->duration_ns}, {"retransmits", flow->retransmits},
          {"segments", flow->segments}, {"waited", flow->waited},           {"receiver", flow->receiver}};
    }
  };
  add_flow("alone", result.alone);
  add_flow("small_segments", result.small);
  add_flow("half_rate", result.half_rate);
  add_flow("together", result.together);
  return message;
}

PairResult pair_result_from_json(const Json& message) {
  PairResult result;
  result.reach = reach_member(message, "reach");
  result.reach_detail = text_member(message, "reach_detail");
  if (const Json* latency = object_member(message, "latency")) {
    result.latency = Latency{.median_ns = number_member(*latency, "median_ns", 0, kMost),
                             .max_ns = number_member(*latency, "max_ns", 0, kMost),
                             .round_trips = number_member(*latency, "round_trips", 0, kMost)};
  }
  if (const Json* mtu = object_member(message, "path_mtu")) {
    result.mtu = PathMtu{.own = number_member(*mtu, "own", 0, 1 << 20),
                         .largest = number_member(*mtu, "largest", 0, 1 << 20),
                         .reported = number_member(*mtu, "reported", 0, 1 << 20)};
  }
  if (message.contains("flow_reach")) {
    result.flow_reach = reach_member(message, "flow_reach");
    result.flow_detail = text_member(message, "flow_detail");
  }
  const auto flow_of = [&](const char* name) -> std::optional<Flow> {
    const Json* flow = object_member(message, name);
    if (flow == nullptr) {
      return std::nullopt;
    }
    return Flow{.bytes = number_member(*flow, "bytes", 0, kMost),
                .duration_ns = number_member(*flow, "duration_ns", 1, kMost),
                .retransmits = number_member(*flow, "retransmits", 0, kMost),
                .segments = number_member(*flow, "segments", 0, kMost),
                .waited = share_member(*flow, "waited"),
                .receiver = share_member(*flow, "receiver")};
  };
  result.alone = flow_of("alone");
  result.small = flow_of("small_segments");
  result.half_rate = flow_of("half_rate");
  result.together = flow_of("together");
  return result;
}

}  // namespace stalltrace::preflight
