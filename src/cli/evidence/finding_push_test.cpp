// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/finding_push.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/http/listener.h"
#include "serve/http/server.h"
#include "store/testing/test_support.h"

namespace stalltrace::cli {
namespace {

using store::must;
using testing::ElementsAre;
using testing::HasSubstr;

const LoadClient kNoClient = [] { return Result<fleet::ClientOptions>(fail("tokenless", "give one")); };

FindingPush to_folder_of(const std::string& path) {
  return must(FindingPush::start({.shown = path, .server = std::nullopt}, kNoClient, Readers::kOwner));
}

TEST(FindingPush, LinesAreInAFileOfTheirAgentAtOnce) {
  const store::TemporaryFolder folder;
  const std::string file = folder / "node7.findings.jsonl";
  FindingPush push = to_folder_of(folder.path());
  push.send("node7", "{\"number\":1}\n");
  for (int i = 0; i < 500 && store::bytes_of(file).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(store::bytes_of(file), "{\"number\":1}\n");
  push.send("node7", "{\"number\":2}\n");
  push.send("node7", "{\"number\":3}\n");
  EXPECT_EQ(push.finish(), 0U);
  EXPECT_EQ(store::bytes_of(file), "{\"number\":1}\n{\"number\":2}\n{\"number\":3}\n");
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST(FindingPush, NothingThatIsThereIsChanged) {
  const store::TemporaryFolder folder;
  std::ofstream(folder / "node7.findings.jsonl") << "another's";
  std::filesystem::create_symlink(folder / "victim", folder / "node7-2.findings.jsonl");
  FindingPush push = to_folder_of(folder.path());
  push.send("node7", "{\"number\":1}\n");
  EXPECT_EQ(push.finish(), 0U);
  EXPECT_EQ(store::bytes_of(folder / "node7.findings.jsonl"), "another's");
  EXPECT_FALSE(std::filesystem::exists(folder / "victim"));
  EXPECT_EQ(store::bytes_of(folder / "node7-3.findings.jsonl"), "{\"number\":1}\n");
}

/// The server may have stored what it did not answer for, and knows only the same lines again.
TEST(FindingPush, ATryThatFailedIsRepeatedAsItWas) {
  auto listener = must(serve::listen_at({.address = "127.0.0.1", .port = 0, .loopback = true}));
  const fleet::NodeAddress node{.host = "127.0.0.1", .port = listener.port};
  const LoadClient client = [] {
    return Result<fleet::ClientOptions>(fleet::ClientOptions{.plain_token = "0123456789abcdef"});
  };
  // Before the server's threads: it is a child process.
  FindingPush push = must(FindingPush::start({.shown = "a server", .server = node}, client, Readers::kOwner));
  std::mutex mutex;
  std::vector<std::string> bodies;
  const auto answer = [&](const serve::HttpRequest& request) {
    const std::lock_guard lock(mutex);
    bodies.push_back(request.body);
    if (bodies.size() == 1) {
      push.send("node7", "second\n");
      return serve::answer_of_error(500, "its answer is lost", "");
    }
    return serve::HttpAnswer{.body = R"({"name":"a"})"};
  };
  const auto server = must(serve::HttpServer::create(std::move(listener.socket), answer, {}));
  std::jthread serving([&] { EXPECT_TRUE(server->run(-1)); });
  push.send("node7", "first\n");
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::lock_guard lock(mutex);
    if (bodies.size() == 3) {
      break;
    }
  }
  EXPECT_EQ(push.finish(), 0U);
  server->stop();
  serving.join();
  EXPECT_THAT(bodies, ElementsAre("first\n", "first\n", "second\n"));
}

TEST(FindingPush, WhatCanNotBeHandedOverIsCountedAndReportedOnce) {
  FindingPush push = must(FindingPush::start({.shown = "https://a:1", .server = fleet::NodeAddress{.host = "a"}},
                                             kNoClient, Readers::kOwner));
  std::optional<Error> problem;
  for (int i = 0; i < 500 && !problem; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    problem = push.problem();
  }
  ASSERT_TRUE(problem.has_value());
  EXPECT_THAT(problem->what, HasSubstr("tokenless"));
  EXPECT_EQ(problem->remedy, "give one");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10'000; ++i) {
    push.send("node7", std::string(1000, 'x') + "\n");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << "it never waits";
  EXPECT_EQ(push.finish(), 10'000U);
}

}  // namespace
}  // namespace stalltrace::cli
