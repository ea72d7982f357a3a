// SPDX-License-Identifier: Apache-2.0
#include "fleet/push.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "serve/http/api.h"
#include "serve/testing/nothing.h"
#include "serve/testing/running_server.h"
#include "store/testing/test_support.h"
#include "tests/support/golden_text.h"

namespace stalltrace::fleet {
namespace {

using serve::HttpRequest;
using serve::RunningServer;
using serve::ServerOptions;
using std::chrono::milliseconds;
using store::must;

constexpr int64_t kStartedNs = 1'800'000'000LL * 1'000'000'000;
const std::string kToken = "0123456789abcdef";

NodeAddress loopback(uint16_t port) { return {.host = "127.0.0.1", .port = port}; }
ClientOptions client(const std::string& token = kToken) { return {.plain_token = token, .limit = milliseconds(5000)}; }

/// A server that takes in.
class Accepting {
 public:
  explicit Accepting(const serve::AcceptLimits& limits = {}) {
    accepted_ = must(serve::AcceptedFolder::open(path(), limits));
    serve::ApiOptions api_options;
    api_options.accepted = accepted_.get();
    api_ = std::make_unique<serve::Api>(recordings_, api_options);
    ServerOptions options{.token = kToken};
    options.uploads.path = serve::Api::kUploadPath;
    options.uploads.begin = [this](const HttpRequest& request) { return api_->begin_upload(request); };
    server_ = std::make_unique<RunningServer>([this](const HttpRequest& request) { return api_->answer(request); },
                                              std::move(options));
  }
  [[nodiscard]] std::string path() const { return folder_ / "accepted"; }
  [[nodiscard]] uint16_t port() const { return server_->port(); }
  [[nodiscard]] bool is_empty() const { return std::filesystem::is_empty(path()); }

 private:
  store::TemporaryFolder folder_;
  serve::NoRecordings recordings_;
  std::unique_ptr<serve::AcceptedFolder> accepted_;
  std::unique_ptr<serve::Api> api_;
  std::unique_ptr<RunningServer> server_;
};

class PushedRecording : public ::testing::Test {
 protected:
  PushedRecording() {
    auto writer = must(store::RecordingWriter::create(path_));
    writer->accept(store::node_row(3, "node7", kStartedNs));
    for (int i = 0; i < 20'000; ++i) {
      writer->accept(store::collective_row(3, static_cast<uint64_t>(i) + 1, 1'000 + 977LL * i * i % 1'000'003, 5));
    }
    must(writer->close());
    file_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  }

  [[nodiscard]] Sendable sendable() const { return must(prepare_to_send(file_.get())); }

  store::TemporaryFolder folder_;
  std::string path_ = folder_ / "made.db";
  UniqueFd file_;
};

TEST_F(PushedRecording, IsThereAsItWas) {
  const Accepting server;
  for (const bool was_there : {false, true}) {
    const auto taken = push_recording(sendable(), loopback(server.port()), client());
    ASSERT_TRUE(taken.has_value()) << taken.error().error.what;
    EXPECT_EQ(taken->name, "node7-20270115T080000Z.db");
    EXPECT_EQ(taken->was_there, was_there);
  }
  EXPECT_TRUE(store::bytes_of(server.path() + "/node7-20270115T080000Z.db") == store::bytes_of(path_));
}

TEST_F(PushedRecording, ByTheWrongTokenIsNotTakenAndNotTriedAgain) {
  const Accepting server;
  for (const std::string token : {"", "0123456789abcdeX"}) {
    const auto taken = push_recording(sendable(), loopback(server.port()), client(token));
    ASSERT_FALSE(taken.has_value());
    EXPECT_FALSE(taken.error().may_pass);
    golden::expect_text(taken.error().error.what);
  }
  EXPECT_TRUE(server.is_empty());
}

TEST_F(PushedRecording, ForWhichThereIsNoRoomMayBeTakenLater) {
  const Accepting small({.most_bytes = 4096});
  const auto taken = push_recording(sendable(), loopback(small.port()), client());
  ASSERT_FALSE(taken.has_value());
  EXPECT_TRUE(taken.error().may_pass);
  golden::expect_text(taken.error().error.what);
  const Accepting never({.most_file_bytes = 4096});
  const auto large = push_recording(sendable(), loopback(never.port()), client());
  ASSERT_FALSE(large.has_value());
  EXPECT_FALSE(large.error().may_pass);
}

TEST_F(PushedRecording, WhereNothingListensMayBeTakenLater) {
  const auto taken = push_recording(sendable(), loopback(1), client());
  ASSERT_FALSE(taken.has_value());
  EXPECT_TRUE(taken.error().may_pass);
}

TEST_F(PushedRecording, ToAServerThatClosesTheConnectionMayBeTakenLater) {
  const auto listener = must(serve::listen_at({.address = "127.0.0.1", .loopback = true}));
  const std::jthread closing([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const UniqueFd connection(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const auto taken = push_recording(sendable(), loopback(listener.port), client());
  ASSERT_FALSE(taken.has_value());
  EXPECT_TRUE(taken.error().may_pass);
}

TEST_F(PushedRecording, IsSentToNoServerThatTakesNothingIn) {
  serve::NoRecordings none;
  serve::Api api(none, {});
  const RunningServer server([&](const HttpRequest& request) { return api.answer(request); }, {.token = kToken});
  const auto taken = push_recording(sendable(), loopback(server.port()), client());
  ASSERT_FALSE(taken.has_value());
  EXPECT_FALSE(taken.error().may_pass);
  const RunningServer other([](const HttpRequest&) { return serve::HttpAnswer{.body = "{}"}; }, {.token = kToken});
  EXPECT_FALSE(push_findings("x", loopback(other.port()), client()).has_value());
}

TEST_F(PushedRecording, GoesToNoServerWithAnUnknownCertificate) {
  const auto identity = must(serve::make_tls_identity());
  std::atomic<int> asked = 0;
  ServerOptions options{.token = kToken, .tls = identity};
  options.uploads.path = "/v1/recordings";
  options.uploads.begin = [&asked](const HttpRequest&) {
    ++asked;
    return serve::Upload{.body = nullptr, .refusal = serve::answer_of_error(503, "busy", "")};
  };
  const RunningServer server([](const HttpRequest&) { return serve::HttpAnswer(); }, std::move(options));
  NodeAddress node = loopback(server.port());
  node.wants_tls = true;
  ClientOptions with_token{.token = kToken, .limit = milliseconds(5000)};
  const auto unknown = push_recording(sendable(), node, with_token);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_FALSE(unknown.error().may_pass);
  EXPECT_EQ(asked, 0);
  with_token.authorities = must(serve::make_tls_identity()).certificate;
  const auto another = push_recording(sendable(), node, with_token);
  ASSERT_FALSE(another.has_value());
  EXPECT_FALSE(another.error().may_pass) << "of a certificate that none of the given ones signed";
  EXPECT_EQ(asked, 0);
  with_token.authorities.clear();
  with_token.fingerprints = {identity.fingerprint};
  const auto busy = push_recording(sendable(), node, with_token);
  ASSERT_FALSE(busy.has_value());
  EXPECT_TRUE(busy.error().may_pass);
  EXPECT_EQ(asked, 1);
}

TEST(PushedFindings, AreLinesOfAFile) {
  const Accepting server;
  const std::string line = R"({"node":"node7","started_ns":1800000000000000000,"cause":"late_rank"})"
                           "\n";
  const auto taken = push_findings(line, loopback(server.port()), client());
  ASSERT_TRUE(taken.has_value()) << taken.error().error.what;
  EXPECT_EQ(taken->name, "node7-20270115T080000Z.findings.jsonl");
  EXPECT_EQ(store::bytes_of(server.path() + "/" + taken->name), line);
  const auto wrong = push_findings("no finding", loopback(server.port()), client());
  ASSERT_FALSE(wrong.has_value());
  EXPECT_FALSE(wrong.error().may_pass);
}

/// The next ones may be shorter, but none waits for these.
TEST(PushedFindings, ForWhichTheirFileHasNoRoomAreNotTriedAgain) {
  const Accepting server({.most_finding_bytes = 100});
  const std::string line = R"({"node":"node7","started_ns":1800000000000000000,"cause":"late_rank"})"
                           "\n";
  ASSERT_TRUE(push_findings(line, loopback(server.port()), client()).has_value());
  EXPECT_TRUE(push_findings(line, loopback(server.port()), client()).has_value()) << "it is there already";
  const auto full = push_findings(R"({"node":"node7","started_ns":1800000000000000000,"cause":"packet_loss"})",
                                  loopback(server.port()), client());
  ASSERT_FALSE(full.has_value());
  EXPECT_FALSE(full.error().may_pass);
  golden::expect_text(full.error().error.what);
}

/// A trace would end with it after hours.
TEST(PushUrl, WhatCanNotComeToAnythingIsKnownBefore) {
  const NodeAddress secure = must(parse_push_url("https://gpu7"));
  const NodeAddress plain = must(parse_push_url("http://127.0.0.1"));
  EXPECT_FALSE(check_push(secure, {.token = kToken}));
  EXPECT_FALSE(check_push(secure, {.fingerprints = {"ab"}}));
  EXPECT_TRUE(check_push(secure, {.token = kToken, .fingerprints = {"ab"}}));
  EXPECT_TRUE(check_push(secure, {.token = kToken, .authorities = "PEM"}));
  EXPECT_FALSE(check_push(plain, {.token = kToken}));
  EXPECT_TRUE(check_push(plain, {.token = kToken, .plain_token = kToken}));
  EXPECT_EQ(check_push(plain, {}).error().kind, ErrorKind::kUsage);
}

TEST(PushUrl, IsOneServers) {
  const auto node = must(parse_push_url("https://gpu7:7701/"));
  EXPECT_EQ(node.host, "gpu7");
  EXPECT_EQ(node.port, 7701);
  EXPECT_TRUE(node.wants_tls);
  EXPECT_EQ(must(parse_push_url("https://[fd00::1]")).port, kDefaultPort);
  EXPECT_FALSE(must(parse_push_url("http://127.0.0.1:7700")).wants_tls);
  for (const std::string wrong :
       {"https://", "https:///", "http://gpu7:7700", "http://localhost:7700", "https://a,b", "https://gpu[1-2]",
        "https://gpu7:7700/v1", "https://gpu7:x", "https://@/etc/passwd", "gpu7:7700", "/shared", ""}) {
    EXPECT_FALSE(parse_push_url(wrong)) << wrong;
  }
  EXPECT_TRUE(is_url("https://gpu7"));
  EXPECT_FALSE(is_url("https"));
  EXPECT_FALSE(is_url("./https://gpu7"));
}

}  // namespace
}  // namespace stalltrace::fleet
