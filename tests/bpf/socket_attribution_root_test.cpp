// SPDX-License-Identifier: Apache-2.0
// Socket attribution from one node alone: the profiler plugin with its marker, and a progress thread that serves many
// connections in turn, with and without socket helpers.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <vector>

#include "capture/decode/collective/unique_id.h"
#include "support.h"

namespace stalltrace::capture {
namespace {

struct End {
  int channel = 0;
  int peer = 0;
  bool control = false;  // the progress thread's own socket
};

class SocketAttributionRoot : public testing::Test {
 protected:
  void SetUp() override {
    ST_NEED_ROOT();
    char folder[] = "/dev/shm/stalltrace-ends-XXXXXX";
    profiler_folder_ = mkdtemp(folder);
    for (size_t i = 0; i < sizeof id_; ++i) {
      id_[i] = static_cast<std::byte>(i + 1);
    }
  }
  void TearDown() override {
    if (!profiler_folder_.empty()) {
      std::filesystem::remove_all(profiler_folder_);
    }
  }

  enum Transfers { kNone, kOwnSockets, kSameSockets };

  /// The connections of rank 0 after some collectives, with Send and Recv beside them; the job's own account of them is
  /// in `reported_`, by local port.
  std::vector<Connection> connections(int channels, bool helpers, Transfers transfers = kNone) {
    Trace trace;
    char hash[32];
    (void)std::snprintf(hash, sizeof hash, "%lx", nccl_comm_hash(id_));
    Job job({.argv = {standin("standin_progress"), standin_library(), STALLTRACE_PLUGIN, hash},
             .environment = {"STALLTRACE_DIR=" + profiler_folder_, "RANK=0", "WORLD_SIZE=3"}});
    job.must("init 3 0");
    sleep_ms(300);  // time to probe the plugin
    job.send_command("run " + std::to_string(channels) + (helpers ? " 1 " : " 0 ") + std::to_string(transfers));
    std::istringstream words(job.answer());
    const int sockets = helpers ? 3 : 1;
    std::string word;
    words >> word;
    for (int number = 0; words >> word; ++number) {
      int port = 0;
      End end{.control = number % sockets == 0};
      EXPECT_EQ(std::sscanf(word.c_str(), "%d:%d:%d", &port, &end.channel, &end.peer), 3);
      reported_[port].push_back(end);  // the receiving ends of one connection share a port
    }
    sleep_ms(1500);
    trace.stop();
    return trace.connections(job.pid());
  }

  /// Every socket with an attribution must have the right one; returns how many there are, of the progress
  /// thread's own and of others.
  std::pair<size_t, size_t> check(const std::vector<Connection>& rows) {
    std::pair<size_t, size_t> attributed;
    for (const Connection& row : rows) {
      const auto reported = reported_.find(row.source.port);
      const bool near = row.thread_name.starts_with("NCCL");
      if (!row.channel) {
        EXPECT_FALSE(row.peer_rank);
        continue;
      }
      EXPECT_TRUE(near) << "the far end has an attribution: " << row.thread_name;
      if (reported == reported_.end() || reported->second.empty()) {
        ADD_FAILURE() << "an attribution for port " << row.source.port << " of " << row.thread_name;
        continue;
      }
      EXPECT_EQ(row.channel, reported->second.front().channel);
      EXPECT_EQ(row.peer_rank, reported->second.front().peer);
      EXPECT_EQ(row.comm_id_hash, comm_id_hash(id_));
      (row.thread_name.starts_with("NCCL Progress") ? attributed.first : attributed.second) += 1;
    }
    return attributed;
  }

  std::string profiler_folder_;
  std::byte id_[128];
  std::map<int, std::vector<End>> reported_;
};

TEST_F(SocketAttributionRoot, EveryConnectionOfAProgressThreadHasItsPeerAndChannel) {
  const auto rows = connections(2, false);
  EXPECT_EQ(check(rows), (std::pair<size_t, size_t>{8, 0}));  // two channels, two peers, two directions
}

TEST_F(SocketAttributionRoot, CollectivesAndTransfersHaveEachTheirSockets) {
  const auto rows = connections(2, false, kOwnSockets);
  EXPECT_EQ(check(rows), (std::pair<size_t, size_t>{16, 0}));
}

TEST_F(SocketAttributionRoot, SocketsOfCollectivesAndTransfersAlike) {
  const auto rows = connections(2, false, kSameSockets);
  EXPECT_EQ(check(rows), (std::pair<size_t, size_t>{8, 0}));
}

TEST_F(SocketAttributionRoot, SocketsOfHelpersGoWithTheirConnection) {
  const auto rows = connections(1, true);
  EXPECT_EQ(check(rows), (std::pair<size_t, size_t>{2, 4}));  // a control socket and two for data, two directions
}

TEST_F(SocketAttributionRoot, ChannelsInTurnWithHelpersAreUnknownRatherThanWrong) {
  const auto rows = connections(2, true);
  EXPECT_EQ(check(rows), (std::pair<size_t, size_t>{0, 0}));
}

}  // namespace
}  // namespace stalltrace::capture
