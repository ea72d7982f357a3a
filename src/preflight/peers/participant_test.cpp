// SPDX-License-Identifier: Apache-2.0
// One rank, and programs at rank 0's port or at another rank's that are not what they should be.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "preflight/peers/endpoint.h"
#include "preflight/peers/launch.h"
#include "preflight/peers/line_channel.h"
#include "preflight/peers/messages.h"
#include "preflight/peers/responder.h"
#include "preflight/testing/host_folder.h"

namespace stalltrace::preflight {
namespace {

/// Something at rank 0's port, which is not rank 0: accepts a rank, and gives it these orders. The rank's answers.
class FalseMaster {
 public:
  explicit FalseMaster(std::vector<nlohmann::ordered_json> orders) {
    auto listener = listen_on(*Endpoint::of("127.0.0.1", 0));
    EXPECT_TRUE(listener);
    listener_ = *std::move(listener);
    thread_ = std::jthread([this, orders = std::move(orders)] {
      UniqueFd fd;
      for (int i = 0; i < 500 && !fd; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        fd = UniqueFd(::accept(listener_.get(), nullptr, nullptr));
      }
      LineChannel rank(std::move(fd));
      for (auto answer = rank.receive(kNsPerSecond); answer; answer = rank.receive(10 * kNsPerSecond)) {
        answers_.push_back(*std::move(answer));
        if (answers_.size() > orders.size() || !rank.send(orders[answers_.size() - 1])) {
          return;
        }
      }
    });
  }
  [[nodiscard]] uint16_t port() const { return local_endpoint(listener_.get()).port(); }
  const std::vector<nlohmann::ordered_json>& answers() {
    if (thread_.joinable()) {
      thread_.join();
    }
    return answers_;
  }

 private:
  UniqueFd listener_;
  std::vector<nlohmann::ordered_json> answers_;
  std::jthread thread_;
};

std::vector<nlohmann::ordered_json> orders(std::initializer_list<nlohmann::ordered_json> all) { return all; }

Result<bool> take_part_with(const FalseMaster& master, const std::string& secret) {
  const HostFolder host;
  const LaunchHooks hooks{.resolve = [](const auto&) { return std::map<std::string, std::vector<std::string>>(); }};
  return take_part({.rank = 1,
                    .world_size = 2,
                    .name = "host1",
                    .master = "localhost",
                    .masters = {"127.0.0.1"},
                    .port = master.port(),
                    .secret = secret,
                    .wait_ns = 5 * kNsPerSecond},
                   {.host = "host1"}, {{"NCCL_SOCKET_IFNAME", "lo"}}, hooks, host.files());
}

/// What a rank answers that has to test a flow alone, to this port.
PairResult flow_to(uint16_t port) {
  const TestOrder flow{.address = "127.0.0.1",
                       .tcp_port = port,
                       .udp_port = 1,
                       .secret = std::string(kSecretBytes, 's'),
                       .flow_only = true,
                       .flow = {.bytes = 1 << 20}};
  FalseMaster master(orders({{{"order", "respond"}}, to_json(flow), {{"order", "end"}, {"failed", false}}}));
  EXPECT_TRUE(take_part_with(master, ""));
  EXPECT_EQ(master.answers().size(), 3U);
  return master.answers().size() == 3 ? pair_result_from_json(master.answers()[2]) : PairResult();
}

TEST(Participant, ARankWithASecretTakesNoOrderOfAnotherProgram) {
  const std::string secret = std::string(kLaunchSecretBytes / 2, 'a') + std::string(kLaunchSecretBytes / 2, 'b');
  FalseMaster master(orders({{{"order", "respond"}}}));
  const auto failed = take_part_with(master, secret);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().what.find("secret"), std::string::npos) << failed.error().what;
  ASSERT_EQ(master.answers().size(), 1U) << "it introduces itself, and does nothing";
  EXPECT_EQ(master.answers()[0].dump().find("bbbb"), std::string::npos) << "rank 0's half is not shown";
}

TEST(Participant, WhatDoesNotAnswerAsATestPortGetsNoFlow) {
  auto other_program = listen_on(*Endpoint::of("127.0.0.1", 0));
  ASSERT_TRUE(other_program);
  const PairResult result = flow_to(local_endpoint(other_program->get()).port());
  EXPECT_EQ(result.reach, Reach::kBroken);
  EXPECT_FALSE(result.alone);
}

/// Accepts one connection, and sends the same byte without end, whatever comes.
class FloodingProgram {
 public:
  FloodingProgram() {
    auto listener = listen_on(*Endpoint::of("127.0.0.1", 0));
    EXPECT_TRUE(listener);
    listener_ = *std::move(listener);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      const std::string bytes(4096, '\0');
      UniqueFd fd;
      while (!stop.stop_requested()) {
        if (!fd) {
          fd = UniqueFd(::accept(listener_.get(), nullptr, nullptr));
        }
        if (!fd || ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
    });
  }
  [[nodiscard]] uint16_t port() const { return local_endpoint(listener_.get()).port(); }

 private:
  UniqueFd listener_;
  std::jthread thread_;
};

TEST(Participant, WhatSendsBytesOfItsOwnGetsNoFlow) {
  const FloodingProgram flooding;
  const PairResult result = flow_to(flooding.port());
  EXPECT_EQ(result.reach, Reach::kBroken);
  EXPECT_FALSE(result.alone);
}

/// Accepts one connection and no other, and sends back what follows the greeting.
class EchoOnce {
 public:
  EchoOnce() {
    auto listening = listen_on(*Endpoint::of("127.0.0.1", 0));
    EXPECT_TRUE(listening);
    port_ = local_endpoint(listening->get()).port();
    thread_ = std::jthread([listener = *std::move(listening)]() mutable {
      UniqueFd fd;
      for (int i = 0; i < 500 && !fd; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        fd = UniqueFd(::accept(listener.get(), nullptr, nullptr));
      }
      listener.reset();
      std::array<char, 4096> bytes{};
      size_t greeting = kSecretBytes + 1;
      for (ssize_t read = ::recv(fd.get(), bytes.data(), bytes.size(), 0); read > 0;
           read = ::recv(fd.get(), bytes.data(), bytes.size(), 0)) {
        const size_t skipped = std::min(greeting, static_cast<size_t>(read));
        greeting -= skipped;
        (void)::send(fd.get(), bytes.data() + skipped, static_cast<size_t>(read) - skipped, MSG_NOSIGNAL);
      }
    });
  }
  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  uint16_t port_ = 0;
  std::jthread thread_;
};

TEST(Participant, AFlowThatCanNotBeOpenedHasAReason) {
  const EchoOnce peer;
  const PairResult result = flow_to(peer.port());
  EXPECT_EQ(result.reach, Reach::kReached) << result.reach_detail;
  EXPECT_FALSE(result.alone);
  EXPECT_EQ(result.flow_reach, Reach::kRefused);
  EXPECT_EQ(result.flow_detail, std::strerror(ECONNREFUSED));
}

TEST(Participant, AFlowFollowsAnEarlierConnectionAtOnce) {
  auto responder = Responder::open("127.0.0.1");
  ASSERT_TRUE(responder);
  responder->start();
  TestOrder reach{.address = "127.0.0.1",
                  .tcp_port = responder->tcp_port(),
                  .udp_port = responder->udp_port(),
                  .secret = responder->secret(),
                  .reach_only = true,
                  .flow = {.bytes = 1 << 20}};
  TestOrder flow = reach;
  flow.reach_only = false;
  flow.flow_only = true;
  FalseMaster master(
      orders({{{"order", "respond"}}, to_json(reach), to_json(flow), {{"order", "end"}, {"failed", false}}}));
  EXPECT_TRUE(take_part_with(master, ""));
  ASSERT_EQ(master.answers().size(), 4U);
  const PairResult first = pair_result_from_json(master.answers()[2]);
  EXPECT_EQ(first.reach, Reach::kReached);
  EXPECT_TRUE(first.latency);
  EXPECT_FALSE(first.mtu || first.alone);
  const PairResult second = pair_result_from_json(master.answers()[3]);
  EXPECT_FALSE(second.latency) << "it did not connect to the echo again";
  EXPECT_TRUE(second.alone);
}

}  // namespace
}  // namespace stalltrace::preflight
