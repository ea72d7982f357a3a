// SPDX-License-Identifier: Apache-2.0
// A rank of `preflight --network`: introduces itself to rank 0 and does what it orders.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/net/link_local.h"
#include "base/text.h"
#include "preflight/nccl/settings.h"
#include "preflight/network/interfaces.h"
#include "preflight/peers/collectives/messages.h"
#include "preflight/peers/launch.h"
#include "preflight/peers/line_channel.h"
#include "preflight/peers/messages.h"
#include "preflight/peers/responder.h"

namespace stalltrace::preflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kConnectNs = 3 * kNsPerSecond;
constexpr int64_t kBetweenTriesNs = 100 * kNsPerMs;
constexpr int64_t kLongestSilenceNs = 600 * kNsPerSecond;  // of the coordinator, while it waits for others
constexpr int64_t kLongestRoundNs = 60 * kNsPerSecond;     // of the barrier
constexpr size_t kMostNames = 4096;

std::string host_identity(const HostFiles& files) {
  std::array<char, PATH_MAX> netns{};
  const ssize_t size = ::readlink((files.proc + "/self/ns/net").c_str(), netns.data(), netns.size());
  return HostFiles::read(files.proc + "/sys/kernel/random/boot_id") + "/" +
         std::string(netns.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
}

std::string own_hostname() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// NCCL's first interface, or, where no other node could reach that, the one with `reached_by`.
TestedNode describe(const Launch& launch, const Environment& environment, const std::string& reached_by,
                    const HostFiles& files) {
  TestedNode node{.name = launch.name, .address = reached_by};
  const auto interfaces = read_interfaces();
  if (!interfaces) {
    return node;
  }
  const Settings settings = Settings::read(environment, files);
  const ChosenInterfaces chosen =
      choose_interfaces(*interfaces, settings.value("NCCL_SOCKET_IFNAME"), settings.value("NCCL_SOCKET_FAMILY"));
  const auto usable = std::ranges::find_if(
      chosen.addresses, [](const InterfaceAddress& one) { return !one.loopback && !is_link_local(one.address); });
  if (usable != chosen.addresses.end()) {
    node.address = usable->address;
  }
  const auto found = std::ranges::find(*interfaces, node.address, &InterfaceAddress::address);
  if (found != interfaces->end()) {
    node.interface = found->name;
    const std::string folder = files.sys + "/class/net/" + found->name;
    node.mtu = parse_integer(HostFiles::read(folder + "/mtu")).value_or(0);
    // The speed of an interface without a device (veth, bridges) is a constant of the driver.
    if (::access((folder + "/device").c_str(), F_OK) == 0) {
      node.line_mbit = std::max<int64_t>(parse_integer(HostFiles::read(folder + "/speed")).value_or(0), 0);
    }
  }
  return node;
}

/// Tries all addresses of rank 0 again and again: it may start later.
Result<UniqueFd> connect_to_master(const Launch& launch) {
  const int64_t end_ns = monotonic_now_ns() + launch.wait_ns;
  std::string problem = "it has no address";
  do {
    for (const std::string& number : launch.masters) {
      ST_ASSIGN(const Endpoint master, Endpoint::of(number, launch.port));
      const int64_t left_ns = std::max<int64_t>(end_ns - monotonic_now_ns(), kNsPerMs);
      Connected connected = connect_within(master, std::min(left_ns, kConnectNs), /*small_segments=*/true);
      if (connected.error == 0) {
        return std::move(connected.fd);
      }
      problem = fmt::format("{}: {}", number, std::strerror(connected.error));
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kBetweenTriesNs));
  } while (monotonic_now_ns() < end_ns);
  return fail(fmt::format("rank {} could not reach rank 0 at {} port {} for {}: {}", launch.rank, launch.master,
                          launch.port, format_duration(launch.wait_ns), problem),
              "is preflight running there, does the name lead to that host, does a firewall let the port pass? --port "
              "chooses another");
}

Json answer_names(const Json& message, const LaunchHooks& hooks) {
  std::vector<std::string> names;
  if (const auto list = message.find("names"); list != message.end() && list->is_array()) {
    for (const Json& name : *list) {
      if (name.is_string() && names.size() < kMostNames) {
        names.push_back(name.get<std::string>());
      }
    }
  }
  Json found = Json::object();
  for (const auto& [name, addresses] : hooks.resolve(names)) {
    found[name] = addresses;
  }
  return {{"addresses", found}};
}

std::optional<Flow> if_opened(const std::expected<Flow, int>& flow) {
  return flow ? std::optional(*flow) : std::nullopt;
}

/// The peers that answered as a rank's test port does. What did not answer gets no flow: it may be any program.
using Reached = std::set<std::string>;

Result<Json> answer_test(const Json& message, const FlowLimits& limits, Reached& reached) {
  ST_ASSIGN(TestOrder order, test_order_from_json(message));
  // The smaller one of what rank 0 asks for and what this rank was started with.
  order.flow.streams = std::min(order.flow.streams, limits.streams);
  order.flow.bytes = std::min(order.flow.bytes, limits.bytes);
  order.flow.time_ns = std::min(order.flow.time_ns, limits.time_ns);
  if (limits.mbit > 0) {
    order.flow.mbit = order.flow.mbit == 0 ? limits.mbit : std::min(order.flow.mbit, limits.mbit);
  }
  Peer peer{.secret = order.secret};
  ST_ASSIGN(peer.tcp, Endpoint::of(order.address, order.tcp_port));
  ST_ASSIGN(peer.udp, Endpoint::of(order.address, order.udp_port));
  const std::string name = fmt::format("{} {} {}", order.address, order.tcp_port, order.secret);
  PairResult result;
  if (order.flow_only && reached.contains(name)) {
    result.reach = Reach::kReached;
  } else {
    test_reach(peer, result);
  }
  if (result.reach == Reach::kReached) {
    reached.insert(name);
    if (order.reach_only) {
      return to_json(result);
    }
    if (!order.flow_only) {
      result.mtu = test_path_mtu(peer, order.interface_mtu, result.latency ? result.latency->median_ns : 0);
    }
  }
  if (result.reach == Reach::kReached) {
    test_alone(peer, order.flow, result);
    // Less than one segment of those that every path carries is nothing: the kernel counts some of the set-up, too.
    if (result.alone && result.alone->bytes < std::min<int64_t>(kSmallSegment, order.flow.bytes)) {
      result.small = if_opened(test_flow(peer, order.flow, Segments::kSmall));
    } else if (order.half_rate && result.alone && result.alone->retransmits > 0) {
      order.flow.mbit = std::max<int64_t>(static_cast<int64_t>(result.alone->mbit() / 2), 1);
      result.half_rate = if_opened(test_flow(peer, order.flow));
    }
  }
  return to_json(result);
}

Json answer_collective(const Json& message, CollectivesHelper* helper, int stop) {
  const auto order = collective_order_from_json(message);
  return to_json(!order              ? CollectiveAnswer{.detail = order.error().what}
                 : helper == nullptr ? CollectiveAnswer{.detail = "this rank was started without --collectives"}
                                     : helper->follow(*order, stop));
}

Status arrive_at_barriers(LineChannel& channel) {
  ST_TRY(channel.send({{"ready", true}}));
  for (;;) {
    ST_ASSIGN(const char byte, channel.receive_byte(kLongestRoundNs));
    if (byte == 'e') {
      return {};
    }
    ST_TRY(channel.send_byte('a'));
  }
}

}  // namespace

bool has_address(const std::vector<std::string>& numbers) {
  return std::ranges::any_of(numbers, [](const std::string& number) {
    const auto at = Endpoint::of(number, 0);
    return at && bind_datagrams(*at).has_value();
  });
}

Result<bool> take_part(const Launch& launch, const HostReport& report, const Environment& environment,
                       const LaunchHooks& hooks, const HostFiles& files) {
  ST_ASSIGN(UniqueFd fd, connect_to_master(launch));
  const TestedNode node = describe(launch, environment, local_endpoint(fd.get()).number(), files);
  LineChannel channel(std::move(fd));
  ST_ASSIGN(Responder responder, Responder::open(node.address));
  ST_TRY(channel.send(to_json(Hello{.rank = launch.rank,
                                    .world_size = launch.world_size,
                                    .job = launch.job,
                                    .admission = admission_of(launch.secret),
                                    .host = host_identity(files),
                                    .hostname = own_hostname(),
                                    .node = node,
                                    .tcp_port = responder.tcp_port(),
                                    .udp_port = responder.udp_port(),
                                    .secret = responder.secret(),
                                    .report = report})));
  bool welcomed = launch.secret.empty();
  Reached reached;
  for (;;) {
    auto message = channel.receive(kLongestSilenceNs + launch.wait_ns);
    if (!message) {
      return with_context(fmt::format("rank {}, to rank 0 at {}", launch.rank, launch.master), message.error());
    }
    if (!welcomed && is_welcome(*message, launch.secret)) {
      welcomed = true;
      continue;
    }
    const bool refused = message->contains("refused");
    if (!welcomed && !refused) {
      return fail(
          fmt::format("what answers at {} port {} does not know the secret of these tests", launch.master, launch.port),
          "is it another program? --port chooses another port");
    }
    const std::string order = text_member(*message, "order");
    if (order == "names") {
      ST_TRY(channel.send(answer_names(*message, hooks)));
    } else if (order == "respond") {
      hooks.confine();
      responder.start();
      ST_TRY(channel.send({{"ready", true}}));
    } else if (order == "test") {
      ST_ASSIGN(const Json answer, answer_test(*message, launch.flow, reached));
      ST_TRY(channel.send(answer));
    } else if (order == "barrier") {
      ST_TRY(arrive_at_barriers(channel));
    } else if (order == "collective") {
      ST_TRY(channel.send(answer_collective(*message, hooks.collectives, channel.fd())));
    } else if (order == kStopOrder) {
      continue;  // what it was for has ended
    } else if (order == "end") {
      return message->value("failed", Json()) == true;
    } else {
      const std::string refusal = text_member(*message, "refused");
      return fail(fmt::format("rank 0 at {} refuses rank {}: {}", launch.master, launch.rank,
                              refusal.empty() ? "it sent no order that is known here" : refusal),
                  "start the same command once for each rank of one launch");
    }
  }
}

}  // namespace stalltrace::preflight
