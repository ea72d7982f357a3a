// SPDX-License-Identifier: Apache-2.0
// What rank 0 and the ranks of a launch say to each other, as JSON. All of it is untrusted: what has another form is
// refused or reads as absent, numbers out of range are errors.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "preflight/host_check.h"
#include "preflight/peers/measured.h"
#include "preflight/peers/probes.h"

namespace stalltrace::preflight {

/// Both ends of a launch are the same program: another number is another version of it.
inline constexpr int64_t kProtocol = 1;
inline constexpr int32_t kMostRanks = 1 << 16;
/// The order to wait no longer for what the last order asked for; it has no answer of its own.
inline constexpr const char* kStopOrder = "stop";

/// How a rank introduces itself.
struct Hello {
  int32_t rank = 0;
  int32_t world_size = 0;
  std::string job;        // the launcher's id of the job; empty: unknown
  std::string admission;  // first half of Launch::secret
  std::string host;       // processes with the same one share a network namespace
  std::string hostname;   // what others would look up
  TestedNode node;
  uint16_t tcp_port = 0;
  uint16_t udp_port = 0;
  std::string secret;
  HostReport report;
};
nlohmann::ordered_json to_json(const Hello& hello);
Result<Hello> hello_from_json(const nlohmann::ordered_json& message);

/// "test": measure these, and answer with a PairResult.
struct TestOrder {
  std::string address;
  uint16_t tcp_port = 0;
  uint16_t udp_port = 0;
  std::string secret;
  bool flow_only = false;
  bool reach_only = false;  // no path MTU and no flow; for a flow_only that follows
  bool half_rate = false;   // where the flow sends segments again, one at half its rate follows
  int64_t interface_mtu = 0;
  FlowLimits flow;
};
nlohmann::ordered_json to_json(const TestOrder& order);
Result<TestOrder> test_order_from_json(const nlohmann::ordered_json& message);

/// Without `from` and `to`, which only rank 0 knows. With flow_only the flow is `alone`.
nlohmann::ordered_json to_json(const PairResult& result);
PairResult pair_result_from_json(const nlohmann::ordered_json& message);

/// Rank 0's answer to a Hello where the launch has a secret: the second half of it.
nlohmann::ordered_json welcome(const std::string& secret);
[[nodiscard]] bool is_welcome(const nlohmann::ordered_json& message, const std::string& secret);
/// Whether the Hello comes from a rank of this launch.
[[nodiscard]] bool is_admitted(const Hello& hello, const std::string& secret);
/// The half that a rank shows.
std::string admission_of(const std::string& secret);

/// A member as text or number, if it is one.
std::string text_member(const nlohmann::ordered_json& object, const char* name);
int64_t number_member(const nlohmann::ordered_json& object, const char* name, int64_t low, int64_t high);

}  // namespace stalltrace::preflight
