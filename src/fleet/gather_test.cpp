// SPDX-License-Identifier: Apache-2.0
#include "fleet/gather.h"

#include <gmock/gmock.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fleet/testing/test_nodes.h"
#include "serve/http/api.h"
#include "serve/testing/compressed_zeros.h"
#include "serve/testing/job_file.h"
#include "serve/testing/running_server.h"

namespace stalltrace::fleet {
namespace {

using namespace analysis::small_job;
using serve::compressed_zeros;
using serve::HttpAnswer;
using serve::HttpRequest;
using serve::RunningServer;
using std::chrono::milliseconds;

TEST(FleetGather, RecordingsArriveAsTheyAre) {
  const ServingNode first;
  const ServingNode second(hang());
  const BadServer hangs("", BadServer::Then::kHangs);
  const RunningServer bomb([](const HttpRequest& request) {
    if (request.path == "/v1/node") {
      return HttpAnswer{.body = R"({"api":1,"recordings":[{"name":"a"}]})"};
    }
    return HttpAnswer{.content_type = "application/zstd", .body = "not zstd at all"};
  });
  const store::TemporaryFolder folder;
  const std::vector<NodeAddress> nodes{first.address(), node_at(hangs.port()), node_at(bomb.port()), second.address()};
  const Gathered gathered = gather_recordings(nodes, {.client = {.limit = kLimit * 2}, .folder = folder.path()});
  ASSERT_EQ(gathered.files.size(), 2U);
  EXPECT_EQ(store::bytes_of(gathered.files[0]), store::bytes_of(first.file()));
  EXPECT_EQ(store::bytes_of(gathered.files[1]), store::bytes_of(second.file()));
  EXPECT_EQ(folder.names().size(), 2U);
  ASSERT_EQ(gathered.failed.size(), 2U);
  EXPECT_EQ(gathered.failed[1].node, nodes[2].shown());
  EXPECT_GT(gathered.moved_bytes, 0);
}

/// Four nodes that announce a quarter of all room each, and send nothing, or only a part.
TEST(FleetGather, WhatIsOnlyAnnouncedKeepsNoOtherNodeOut) {
  const ServingNode good;
  const auto recording_bytes = static_cast<int64_t>(store::bytes_of(good.file()).size());
  std::atomic<int> announced = 0;
  std::atomic<bool> over = false;
  const auto announces = [&](const HttpRequest& request) {
    if (request.path == "/v1/node") {
      return HttpAnswer{.body = R"({"api":1,"recordings":[{"name":"a"}]})"};
    }
    HttpAnswer answer{.content_type = "application/zstd"};
    answer.headers.emplace_back("Stalltrace-Bytes", std::to_string(recording_bytes));
    answer.next_piece = [&]() -> Result<std::string> {
      ++announced;
      while (!over) {
        std::this_thread::sleep_for(milliseconds(5));
      }
      return fail("never");
    };
    return answer;
  };
  std::vector<std::unique_ptr<RunningServer>> silent;
  std::vector<NodeAddress> nodes;
  for (int i = 0; i < 4; ++i) {
    silent.push_back(std::make_unique<RunningServer>(announces));
    nodes.push_back(node_at(silent.back()->port()));
  }
  const auto recordings = serve::recordings_in_files({good.file()});
  const store::TemporaryFolder copies;
  serve::Api api(*recordings, {.copies_folder = copies.path()});
  const RunningServer later([&](const HttpRequest& request) {
    while (request.path == "/v1/recording" && announced < 4 && !over) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    std::this_thread::sleep_for(milliseconds(50));  // the others' headers are there
    return api.answer(request);
  });
  nodes.push_back(node_at(later.port()));
  const store::TemporaryFolder folder;
  const Gathered gathered = gather_recordings(
      nodes,
      {.client = {.limit = std::chrono::seconds(3)}, .folder = folder.path(), .most_bytes = recording_bytes * 4});
  over = true;
  ASSERT_EQ(gathered.files.size(), 1U);
  EXPECT_EQ(store::bytes_of(gathered.files[0]), store::bytes_of(good.file()));
  EXPECT_EQ(gathered.failed.size(), 4U);
}

/// Of eight nodes there is room for four; those that don't fit give back what had arrived of them.
TEST(FleetGather, NodesThatDoNotFitLeaveTheirRoomToOthers) {
  std::vector<std::unique_ptr<ServingNode>> serving;
  std::vector<NodeAddress> nodes;
  int64_t largest_bytes = 0;
  for (int i = 0; i < 8; ++i) {
    serving.push_back(std::make_unique<ServingNode>());
    nodes.push_back(serving.back()->address());
    largest_bytes = std::max(largest_bytes, static_cast<int64_t>(store::bytes_of(serving.back()->file()).size()));
  }
  const store::TemporaryFolder folder;
  const Gathered gathered = gather_recordings(
      nodes, {.client = {.limit = std::chrono::seconds(10)}, .folder = folder.path(), .most_bytes = largest_bytes * 4});
  EXPECT_GE(gathered.files.size(), 3U);
  EXPECT_LE(gathered.files.size(), 4U);
  EXPECT_EQ(gathered.failed.size(), 8 - gathered.files.size());
  EXPECT_EQ(folder.names().size(), gathered.files.size());
}

/// A stream of zstd without its end, from which all bytes can be had.
std::string zeros_without_end(size_t bytes) {
  const std::string zeros(bytes, '\0');
  std::string compressed(ZSTD_compressBound(bytes), '\0');
  ZSTD_CCtx* stream = ZSTD_createCCtx();
  ZSTD_inBuffer from{zeros.data(), zeros.size(), 0};
  ZSTD_outBuffer to{compressed.data(), compressed.size(), 0};
  EXPECT_EQ(ZSTD_compressStream2(stream, &to, &from, ZSTD_e_flush), 0U);
  ZSTD_freeCCtx(stream);
  compressed.resize(to.pos);
  return compressed;
}

/// Four nodes that have sent a quarter of all room each, and break off.
TEST(FleetGather, NodesWhoseConnectionBreaksLeaveTheirRoomToOthers) {
  const ServingNode good;
  const auto recording_bytes = static_cast<int64_t>(store::bytes_of(good.file()).size());
  const std::string zeros = zeros_without_end(static_cast<size_t>(recording_bytes));
  std::atomic<int> broken = 0;
  const auto breaks = [&](const HttpRequest& request) {
    if (request.path == "/v1/node") {
      return HttpAnswer{.body = R"({"api":1,"recordings":[{"name":"a"}]})"};
    }
    HttpAnswer answer{.content_type = "application/zstd"};
    answer.headers.emplace_back("Stalltrace-Bytes", std::to_string(recording_bytes));
    answer.next_piece = [&, sent = false]() mutable -> Result<std::string> {
      if (!std::exchange(sent, true)) {
        return zeros;
      }
      ++broken;
      return fail("broken");
    };
    return answer;
  };
  std::vector<std::unique_ptr<RunningServer>> breaking;
  std::vector<NodeAddress> nodes;
  for (int i = 0; i < 4; ++i) {
    breaking.push_back(std::make_unique<RunningServer>(breaks));
    nodes.push_back(node_at(breaking.back()->port()));
  }
  const auto recordings = serve::recordings_in_files({good.file()});
  const store::TemporaryFolder copies;
  serve::Api api(*recordings, {.copies_folder = copies.path()});
  const RunningServer later([&](const HttpRequest& request) {
    for (int i = 0; request.path == "/v1/recording" && broken < 4 && i < 1000; ++i) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    std::this_thread::sleep_for(milliseconds(50));  // the others' ends are there
    return api.answer(request);
  });
  nodes.push_back(node_at(later.port()));
  const store::TemporaryFolder folder;
  const Gathered gathered = gather_recordings(
      nodes,
      {.client = {.limit = std::chrono::seconds(10)}, .folder = folder.path(), .most_bytes = recording_bytes * 4});
  ASSERT_EQ(gathered.files.size(), 1U);
  EXPECT_EQ(store::bytes_of(gathered.files[0]), store::bytes_of(good.file()));
  EXPECT_EQ(gathered.failed.size(), 4U);
  EXPECT_EQ(folder.names().size(), 1U);
}

TEST(FleetGather, ARecordingThatCantBeReadIsItsNodesFailure) {
  const ServingNode first;
  const store::TemporaryFolder folder;
  const std::string zeros = compressed_zeros(folder, 4 << 20);
  const auto node_with = [&](const std::string& announced) {
    return std::make_unique<RunningServer>([&zeros, announced](const HttpRequest& request) {
      if (request.path == "/v1/node") {
        return HttpAnswer{.body = R"({"api":1,"recordings":[{"name":"a"}]})"};
      }
      HttpAnswer answer{.content_type = "application/zstd", .body = zeros};
      if (!announced.empty()) {
        answer.headers.emplace_back("Stalltrace-Bytes", announced);
      }
      return answer;
    });
  };
  const auto garbage = node_with("4194304");
  const auto lies = node_with("1000");
  const auto silent = node_with("");
  const std::vector<NodeAddress> nodes{node_at(garbage->port()), node_at(lies->port()), node_at(silent->port()),
                                       first.address()};
  const Gathered gathered = gather_recordings(nodes, {.client = {.limit = kLimit * 5}, .folder = folder.path()});
  ASSERT_EQ(gathered.files.size(), 1U);
  EXPECT_EQ(store::bytes_of(gathered.files[0]), store::bytes_of(first.file()));
  EXPECT_EQ(gathered.failed.size(), 3U);
}

}  // namespace
}  // namespace stalltrace::fleet
