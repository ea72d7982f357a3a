// SPDX-License-Identifier: Apache-2.0
#include "autopsy/hosts/host_result.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "autopsy/testing/hosts.h"
#include "model/json/autopsy_result.h"
#include "tests/support/golden_text.h"

namespace stalltrace::autopsy {
namespace {

using testing::file_of;
using testing::host_of;
using testing::JobSnapshots;
using Json = nlohmann::ordered_json;

/// One of everything.
HostResult full_host() {
  JobSnapshots job(2);
  job.leaves(1);
  RankState& rank = job.last(0);
  rank.local_size = 2;
  rank.run_state = RunState::kDebugged;
  rank.debugger = 99;
  rank.problem = "process 4000: Permission denied";
  rank.no_sockets = "list the descriptors of process 4000: Permission denied";
  rank.call = OpenCall{"cudaStreamSynchronize", std::nullopt, Witness::kNative};
  rank.call_problem = "no samples";
  rank.cpu_ticks = 7;
  job.last(1).call_site.reset();
  job.last(1).launcher_job = "none";
  job.last(1).rank.reset();
  job.last(1).world_size.reset();
  rank.communicators = {
      {.address = UINT64_MAX, .hash = UINT64_MAX, .rank = 1, .nranks = 2, .device = 3, .launched = {{"AllReduce", 7}}}};
  rank.communicators_problem = "open /proc/4000/pagemap: Permission denied";
  TcpSocket& socket = job.socket(1, 0, 1);
  socket.state = TcpState::kCloseWait;
  socket.timer = Timer::kWindowProbe;
  socket.tries = 3;
  socket.backoff = 2;
  socket.expires_ms = 200;
  socket.time_out_ms = 6400;
  socket.receive_queue = 11;
  socket.send_queue = 12;
  socket.not_sent = 13;
  socket.acked = UINT64_MAX;
  socket.silent_ms.reset();
  socket.ack_age_ms = 14;
  socket.local = {"fd00::1", 4711};
  HostResult host = host_of(job, "gpu01", 0, 1);
  host.snapshots[1].ranks.push_back(job.last(1));
  host.snapshots[1].ranks.back().node = host.node;
  host.traced = {.done = true, .problem = "p", .lasted_ns = 3, .calls = {{4000, {.ended = 7, .launched = 8}}}};
  host.ras = {
      {.job = "train", .address = "127.0.0.1:28028", .asked_ns = 5, .report = "report", .statements = {"a", "b"}}};
  host.problems = {"NCCL's RAS at 127.0.0.1:28028 did not answer"};
  return host;
}

TEST(HostResult, IsReadAsItWasWritten) {
  const HostResult host = full_host();
  const auto read = read_result(file_of(host).dump());
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->node, "gpu01");
  EXPECT_EQ(read->snapshots[1].ranks[0].node, "gpu01");
  EXPECT_EQ(evidence_json(*read).dump(2), evidence_json(host).dump(2));
}

TEST(HostResult, TextsAreMadePrintable) {
  HostResult host = full_host();
  host.snapshots[1].ranks[0].location = "in \x1b[31mred\n";
  const auto read = read_result(file_of(host).dump());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->snapshots[1].ranks[0].location, "in ?[31mred?");
}

TEST(HostResult, EachRefusalSaysWhatItIs) {
  const Json good = file_of(full_host());
  const std::string text = good.dump();
  std::string refusals;
  const auto refuse = [&](std::string_view json) {
    const auto read = read_result(json);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().kind, ErrorKind::kCorrupt);
    refusals += read.error().what + " -> " + read.error().remedy + "\n";
  };
  const auto changed = [&](const auto& change) {
    Json json = good;
    change(json);
    refuse(json.dump());
  };
  refuse("");
  refuse("[]");
  refuse(R"({"schema": 1, "host": "a", "facts": {}, "checks": []})");  // of stalltrace preflight
  refuse(text.substr(0, text.size() / 2));
  changed([](Json& json) { json["schema"] = 2; });
  changed([](Json& json) { json["nodes"] = Json::array(); });
  changed([](Json& json) { json.erase("evidence"); });
  changed([](Json& json) { json["evidence"]["snapshots"].erase(1); });
  changed([](Json& json) { json["evidence"]["snapshots"][0]["taken_ns"] = int64_t{1} << 61; });
  const auto in_rank = [&](const char* name, const Json& value) {
    changed([&](Json& json) { json["evidence"]["snapshots"][0]["ranks"][0][name] = value; });
  };
  in_rank("pid", 0);
  in_rank("pid", int64_t{1} << 40);
  in_rank("world_size", 1 << 30);
  in_rank("state", "asleep");
  in_rank("communicators", Json::array({Json{{"address", 1}, {"hash", 0}}}));
  in_rank("job", 7);
  in_rank("call_site", "train.py");
  in_rank("sockets", nullptr);
  changed([](Json& json) { json["evidence"]["snapshots"][0]["ranks"][0]["sockets"][0]["silent_ms"] = -1; });
  changed([](Json& json) { json["evidence"]["snapshots"][0]["ranks"][0]["sockets"][0]["state"] = 12; });
  golden::expect_text(refusals);
}

TEST(HostResult, DepthIsBounded) {
  const std::string text = file_of(full_host()).dump();
  const auto nested = [&](size_t depth) {
    return text.substr(0, text.size() - 1) + ",\"x\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(read_result(nested(15)));
  const auto deeper = read_result(nested(17));
  ASSERT_FALSE(deeper);
  golden::expect_text(deeper.error().what);
}

}  // namespace
}  // namespace stalltrace::autopsy
