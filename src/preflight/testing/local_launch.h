// SPDX-License-Identifier: Apache-2.0
// A whole launch over loopback: ranks are threads, and each pretends to be on a host of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "preflight/peers/launch.h"
#include "preflight/peers/line_channel.h"
#include "preflight/peers/messages.h"
#include "preflight/peers/responder.h"
#include "preflight/testing/fake_program.h"
#include "preflight/testing/host_folder.h"

namespace stalltrace::preflight {

inline constexpr int64_t kMtu = 4000;

/// Rank 0's coordinator runs here; the ranks are threads.
class LocalLaunch {
 public:
  explicit LocalLaunch(int32_t world_size) {
    // The time is for a busy host: on another one the bytes end a flow at once.
    launch_ = {.world_size = world_size,
               .master = "localhost",
               .masters = {"127.0.0.1"},
               .port = 0,
               .wait_ns = 10 * kNsPerSecond,
               .barrier_rounds = 5,
               .flow = {.streams = 2, .bytes = 1 << 20, .time_ns = 2 * kNsPerSecond}};
  }
  ~LocalLaunch() {
    coordinator_.reset();  // ranks that are left see that it is gone
  }
  LocalLaunch(const LocalLaunch&) = delete;
  LocalLaunch& operator=(const LocalLaunch&) = delete;

  Launch& launch() { return launch_; }

  void listen() {
    auto opened = Coordinator::open(launch_);
    ASSERT_TRUE(opened) << opened.error().what;
    coordinator_.emplace(*std::move(opened));
    launch_.port = coordinator_->port();
  }

  /// `program`: what makes collectives for it; null: it was started without.
  void start_rank(int32_t rank, FakeProgram* program = nullptr) {
    ranks_.emplace_back([rank, launch = launch_, program]() mutable {
      const HostFolder host;
      host.write("proc/sys/kernel/random/boot_id", "boot-" + std::to_string(rank));
      host.write("sys/class/net/lo/mtu", std::to_string(kMtu));
      launch.rank = rank;
      launch.name = "host" + std::to_string(rank);
      const HostReport report{.host = launch.name, .facts = {{"MTU of lo", std::to_string(kMtu)}}};
      std::optional<CollectivesHelper> helper;
      if (program != nullptr) {
        helper.emplace(program->take_socket(), 0, "", launch.collectives.max_bytes);
      }
      const LaunchHooks hooks{.resolve = [](const auto&) { return std::map<std::string, std::vector<std::string>>(); },
                              .collectives = helper ? &*helper : nullptr};
      const auto failed = take_part(launch, report, {{"NCCL_SOCKET_IFNAME", "lo"}}, hooks, host.files());
      (void)failed;
    });
  }

  /// A rank of the test's own.
  LineChannel introduce(int32_t rank, int32_t world_size = 0, const std::string& job = "") {
    auto master = Endpoint::of("127.0.0.1", launch_.port);
    Connected connected = connect_within(*master, kNsPerSecond);
    EXPECT_EQ(connected.error, 0);
    LineChannel channel(std::move(connected.fd));
    const Hello hello{.rank = rank,
                      .world_size = world_size == 0 ? launch_.world_size : world_size,
                      .job = job,
                      .host = "odd",
                      .node = {.name = "odd", .address = "127.0.0.1"},
                      .tcp_port = 1,
                      .udp_port = 1,
                      .secret = std::string(kSecretBytes, 's'),
                      .report = {.host = "odd"}};
    EXPECT_TRUE(channel.send(to_json(hello)));
    return channel;
  }

  LaunchResults run() {
    auto results = coordinator_->run([this](const std::string& step) { steps_.push_back(step); });
    EXPECT_TRUE(results);
    coordinator_->finish(false);
    return results ? *std::move(results) : LaunchResults();
  }

  /// What it announced.
  [[nodiscard]] const std::vector<std::string>& steps() const { return steps_; }

 private:
  Launch launch_;
  std::vector<std::string> steps_;
  std::vector<std::jthread> ranks_;
  std::optional<Coordinator> coordinator_;
};

}  // namespace stalltrace::preflight
