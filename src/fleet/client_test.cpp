// SPDX-License-Identifier: Apache-2.0
#include "fleet/client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <span>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "fleet/node_info.h"
#include "fleet/query.h"
#include "fleet/testing/test_nodes.h"
#include "serve/http/api.h"
#include "serve/testing/job_file.h"
#include "serve/testing/running_server.h"

namespace stalltrace::fleet {
namespace {

using namespace analysis::small_job;
using serve::HttpAnswer;
using serve::HttpRequest;
using serve::RunningServer;
using serve::ServerOptions;
using std::chrono::milliseconds;
using testing::ElementsAre;

class Rows final : public RowSink {
 public:
  Status columns(const std::vector<std::string>& given) override {
    names = given;
    return {};
  }
  Result<bool> row(std::span<const Value> values) override {
    rows.emplace_back(values.begin(), values.end());
    return true;
  }
  std::vector<std::string> names;
  std::vector<std::vector<Value>> rows;
};

TEST(FleetQuery, NodesThatFailAreNamedAndTheRestIsAnswered) {
  const ServingNode first;
  const ServingNode second;
  const BadServer hangs("", BadServer::Then::kHangs);
  const BadServer stops(head("Content-Length: 100\r\n\r\n{"), BadServer::Then::kHangs);
  const BadServer closes("", BadServer::Then::kCloses);
  const BadServer cuts(head("Content-Length: 100\r\n\r\n{\"recording\""), BadServer::Then::kCloses);
  const BadServer garbage("\x16\x03\x01 no HTTP \xff\n\n", BadServer::Then::kCloses);
  const BadServer page(head("Content-Length: 6\r\n\r\n<html>"), BadServer::Then::kHangs);
  const BadServer missing("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone", BadServer::Then::kHangs);
  const BadServer large(head("Content-Length: 99999999999999\r\n\r\n"), BadServer::Then::kHangs);
  const BadServer header(head("X: " + std::string(100'000, 'x')), BadServer::Then::kHangs);
  const BadServer smuggles(head("Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n"), BadServer::Then::kHangs);
  const BadServer control("HTTP/1.1 401 No\r\nContent-Length: 22\r\n\r\n{\"error\":\"\\u001b[2Jno\"}",
                          BadServer::Then::kHangs);
  NodeAddress unknown{.host = "nowhere", .problem = "no host", .remedy = "check"};
  std::vector<NodeAddress> nodes{first.address(), unknown, node_at(1)};
  for (const BadServer* bad :
       {&hangs, &stops, &closes, &cuts, &garbage, &page, &missing, &large, &header, &smuggles, &control}) {
    nodes.push_back(node_at(bad->port()));
  }
  nodes.push_back(second.address());
  const auto begin = std::chrono::steady_clock::now();
  Rows rows;
  const auto answer = query_nodes(nodes, "SELECT count(*) AS n FROM collective", {.limit = kLimit}, rows);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit + std::chrono::seconds(1));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->answered, 2U);
  EXPECT_THAT(rows.names, ElementsAre("node", "n"));
  ASSERT_EQ(rows.rows.size(), 2U);
  EXPECT_EQ(rows.rows[0][1], Value(int64_t{400}));
  ASSERT_EQ(answer->failed.size(), nodes.size() - 2);
  for (size_t i = 0; i < answer->failed.size(); ++i) {
    EXPECT_EQ(answer->failed[i].node, nodes[i + 1].shown());
    EXPECT_FALSE(answer->failed[i].error.what.empty());
    EXPECT_EQ(answer->failed[i].error.what.find('\x1b'), std::string::npos);
    const bool late = i == 2 || i == 3;  // those that hang
    EXPECT_EQ(answer->failed[i].error.kind == ErrorKind::kInterrupted, late) << answer->failed[i].error.what;
  }
}

TEST(FleetQuery, ABusyNodeIsAskedAgain) {
  std::atomic<int> asked = 0;
  const RunningServer busy([&](const HttpRequest&) {
    return ++asked < 3 ? serve::answer_of_error(503, "busy", "later")
                       : HttpAnswer{.body =
                                        "{\"recording\":\"a\",\"nodes\":[],\"columns\":[\"n\"]}\n"
                                        "{\"end\":true,\"rows\":0,\"truncated\":false}\n"};
  });
  Rows rows;
  const std::vector<NodeAddress> nodes{node_at(busy.port())};
  const auto answer = query_nodes(nodes, "SELECT 1 AS n", {.limit = std::chrono::seconds(5)}, rows);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->answered, 1U);
  EXPECT_EQ(asked, 3);
}

HttpAnswer busy_for(const std::string& seconds) {
  HttpAnswer answer = serve::answer_of_error(503, "busy", "later");
  answer.headers.emplace_back("Retry-After", seconds);
  return answer;
}

TEST(FleetQuery, ABusyNodeIsAskedAgainAfterThePauseThatItAsksFor) {
  std::atomic<int> asked = 0;
  const RunningServer busy([&](const HttpRequest&) {
    ++asked;
    return busy_for("1");
  });
  Rows rows;
  const std::vector<NodeAddress> nodes{node_at(busy.port())};
  const auto answer = query_nodes(nodes, "SELECT 1 AS n", {.limit = milliseconds(1500)}, rows);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->answered, 0U);
  EXPECT_GE(asked, 1);
  EXPECT_LE(asked, 2);
}

TEST(FleetQuery, ANodeThatAsksForALongPauseIsAskedAgainWhileThereIsTime) {
  std::atomic<int> asked = 0;
  const RunningServer busy([&](const HttpRequest&) {
    return ++asked == 1 ? busy_for("99999999999")
                        : HttpAnswer{.body =
                                         "{\"recording\":\"a\",\"nodes\":[],\"columns\":[\"n\"]}\n"
                                         "{\"end\":true,\"rows\":0,\"truncated\":false}\n"};
  });
  Rows rows;
  const std::vector<NodeAddress> nodes{node_at(busy.port())};
  const auto answer = query_nodes(nodes, "SELECT 1 AS n", {.limit = std::chrono::seconds(3)}, rows);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->answered, 1U);
}

TEST(FleetQuery, ANodeThatIsAlwaysBusyIsNotCalledSilent) {
  const RunningServer busy([](const HttpRequest&) { return serve::answer_of_error(503, "busy", "later"); });
  const BadServer hangs("", BadServer::Then::kHangs);
  Rows rows;
  const std::vector<NodeAddress> nodes{node_at(busy.port()), node_at(hangs.port())};
  const auto answer = query_nodes(nodes, "SELECT 1 AS n", {.limit = std::chrono::seconds(3)}, rows);
  ASSERT_TRUE(answer.has_value());
  ASSERT_EQ(answer->failed.size(), 2U);
  EXPECT_EQ(answer->failed[0].error.kind, ErrorKind::kInterrupted);
  EXPECT_NE(answer->failed[0].error.what, answer->failed[1].error.what);
}

class OneQuestion final : public Conversation {
 public:
  Result<std::optional<Question>> next(Reply* last) override {
    return last != nullptr ? std::nullopt : std::optional(Question{.target = "/v1/clock"});
  }
  void on_failure() override { ++failures; }
  int failures = 0;
};

TEST(FleetClient, TheEndOfTheLeaderBoundsTheOthers) {
  const ServingNode leader;
  const BadServer silent("", BadServer::Then::kHangs);
  const std::vector<NodeAddress> nodes{leader.address(), node_at(silent.port())};
  std::array<OneQuestion, 2> asked;
  const std::vector<Conversation*> conversations{&asked[0], &asked[1]};
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Status> ended = converse(nodes, conversations, {.limit = std::chrono::minutes(2), .leader = 0});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
  EXPECT_TRUE(ended[0]);
  EXPECT_FALSE(ended[1]);
}

/// An address that answers nothing, as one behind a firewall: no connection is taken off its full queue, so that the
/// kernel drops further ones.
class DroppingAddress {
 public:
  DroppingAddress(const std::string& number, uint16_t port) : listener_(make_socket()) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}};
    EXPECT_EQ(::inet_pton(AF_INET, number.c_str(), &address.sin_addr), 1);
    const auto* any = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), any, sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    for (int i = 0; i < 8; ++i) {
      waiting_.push_back(make_socket());
      static_cast<void>(::connect(waiting_.back().get(), any, sizeof address));
    }
  }

 private:
  static UniqueFd make_socket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

  UniqueFd listener_;
  std::vector<UniqueFd> waiting_;
};

TEST(FleetClient, AnAddressThatDropsWhatIsSentLeavesTimeForTheNextOne) {
  const ServingNode serving;
  NodeAddress node = serving.address();
  const DroppingAddress dropping("127.0.0.2", node.port);
  node.addresses = {"127.0.0.2", "127.0.0.1"};
  OneQuestion asked;
  const std::vector<Conversation*> conversations{&asked};
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Status> ended = converse({&node, 1}, conversations, {.limit = std::chrono::seconds(4)});
  EXPECT_TRUE(ended[0]) << ended[0].error().what;
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1)) << "it was asked";
  node.addresses = {"127.0.0.2", "127.0.0.2"};
  OneQuestion of_none;
  const std::vector<Conversation*> again{&of_none};
  EXPECT_EQ(converse({&node, 1}, again, {.limit = kLimit})[0].error().kind, ErrorKind::kInterrupted);
  EXPECT_EQ(of_none.progress.connect_error, ETIMEDOUT);
}

TEST(FleetClient, ShowsHowFarEachConversationGot) {
  const ServingNode answers;
  const BadServer silent("", BadServer::Then::kHangs);
  const RunningServer refuses([](const HttpRequest&) { return serve::answer_of_error(403, "no", ""); });
  const std::vector<NodeAddress> nodes{answers.address(), node_at(1), node_at(silent.port()), node_at(refuses.port())};
  std::array<OneQuestion, 4> asked;
  const std::vector<Conversation*> conversations{&asked[0], &asked[1], &asked[2], &asked[3]};
  static_cast<void>(converse(nodes, conversations, {.limit = kLimit}));
  EXPECT_EQ(asked[0].progress.status, 200);
  EXPECT_EQ(asked[1].progress.stage, Stage::kConnecting);
  EXPECT_EQ(asked[1].progress.connect_error, ECONNREFUSED);
  EXPECT_EQ(asked[2].progress.stage, Stage::kAsking);
  EXPECT_EQ(asked[2].progress.status, 0);
  EXPECT_EQ(asked[3].progress.status, 403);
  EXPECT_EQ(asked[0].failures, 0);
  for (const OneQuestion& failed : std::span(asked).subspan(1)) {
    EXPECT_EQ(failed.failures, 1) << "whatever the reason is";
  }
}

TEST(FleetClient, AFailureIsShort) {
  const BadServer endless("HTTP/1.1 500 no\r\nContent-Length: 500000\r\n\r\n" + std::string(500'000, 'x'),
                          BadServer::Then::kHangs);
  const std::vector<NodeAddress> nodes{node_at(endless.port())};
  OneQuestion asked;  // of up to 1 MiB
  const std::vector<Conversation*> conversations{&asked};
  const std::vector<Status> ended = converse(nodes, conversations, {.limit = std::chrono::seconds(5)});
  ASSERT_FALSE(ended[0]);
  EXPECT_EQ(ended[0].error().kind, ErrorKind::kCorrupt) << ended[0].error().what;
}

TEST(FleetQuery, AnswersHaveTheSameColumns) {
  const ServingNode first;
  const RunningServer other([](const HttpRequest&) {
    return HttpAnswer{
        .body =
            "{\"recording\":\"a\",\"nodes\":[],\"columns\":[\"m\"]}\n{\"end\":true,\"rows\":0,\"truncated\":false}\n"};
  });
  Rows rows;
  const std::vector<NodeAddress> nodes{first.address(), node_at(other.port())};
  const auto answer = query_nodes(nodes, "SELECT 1 AS n", {.limit = kLimit}, rows);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->answered, 1U);
  EXPECT_EQ(answer->failed.size(), 1U);
}

std::string lines_of(const std::string& column, int rows) {
  std::string body = R"({"recording":"a","nodes":[],"columns":[")" + column + "\"]}\n";
  for (int i = 0; i < rows; ++i) {
    body += "[1]\n";
  }
  return body + R"({"end":true,"rows":)" + std::to_string(rows) + ",\"truncated\":false}\n";
}

std::unique_ptr<RunningServer> node_that_answers(const std::string& body) {
  return std::make_unique<RunningServer>([body](const HttpRequest&) { return HttpAnswer{.body = body}; });
}

TEST(FleetQuery, AnAnswerWithoutColumnsIsAFailure) {
  const auto empty = node_that_answers("{\"end\":true,\"rows\":0,\"truncated\":false}\n");
  Rows rows;
  const std::vector<NodeAddress> nodes{node_at(empty->port())};
  const auto answer = query_nodes(nodes, "SELECT 1", {.limit = kLimit}, rows);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->answered, 0U);
  EXPECT_EQ(answer->failed.size(), 1U);
}

TEST(FleetQuery, MostNodesDecideOnTheColumns) {
  const auto evil = node_that_answers(lines_of("m", 1));
  const auto one = node_that_answers(lines_of("n", 1));
  const auto two = node_that_answers(lines_of("n", 1));
  Rows rows;
  const std::vector<NodeAddress> nodes{node_at(evil->port()), node_at(one->port()), node_at(two->port())};
  const auto answer = query_nodes(nodes, "SELECT 1 AS n", {.limit = kLimit}, rows);
  ASSERT_TRUE(answer.has_value());
  EXPECT_THAT(rows.names, ElementsAre("node", "n"));
  EXPECT_EQ(rows.rows.size(), 2U);
  ASSERT_EQ(answer->failed.size(), 1U);
  EXPECT_EQ(answer->failed[0].node, nodes[0].shown());
}

TEST(FleetQuery, ANodeGivesSoManyRowsAndNoMore) {
  const auto many = node_that_answers(lines_of("n", 100'001));
  Rows rows;
  const std::vector<NodeAddress> nodes{node_at(many->port())};
  const auto answer = query_nodes(nodes, "SELECT 1 AS n", {.limit = std::chrono::seconds(5)}, rows);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(rows.rows.size(), 100'000U);
  EXPECT_THAT(answer->cut, ElementsAre(nodes[0].shown()));
}

TEST(FleetQuery, AChunkHeaderWithoutEndIsNoAnswer) {
  const BadServer endless(head("Transfer-Encoding: chunked\r\n\r\n1;" + std::string(200'000, 'x')),
                          BadServer::Then::kHangs);
  Rows rows;
  const std::vector<NodeAddress> nodes{node_at(endless.port())};
  const auto answer = query_nodes(nodes, "SELECT 1", {.limit = std::chrono::seconds(5)}, rows);
  ASSERT_TRUE(answer.has_value());
  ASSERT_EQ(answer->failed.size(), 1U);
  EXPECT_EQ(answer->failed[0].error.kind, ErrorKind::kCorrupt);
}

TEST(FleetQuery, WithoutTlsATokenIsSentOnlyIfItWasMeantForThat) {
  const std::string token = "0123456789abcdef";
  const ServingNode node({}, {.token = token});
  const auto answered = [&](NodeAddress address, const ClientOptions& options) {
    Rows rows;
    const std::vector<NodeAddress> nodes{std::move(address)};
    const auto answer = query_nodes(nodes, "SELECT 1 AS n", options, rows);
    return answer && answer->answered == 1;
  };
  NodeAddress named = node.address();
  named.host = "localhost";
  EXPECT_TRUE(answered(node.address(), {.token = token, .plain_token = token, .limit = kLimit}));
  EXPECT_FALSE(answered(named, {.token = token, .plain_token = token, .limit = kLimit}));
  EXPECT_FALSE(answered(node.address(), {.token = token, .limit = kLimit}));
}

TEST(FleetQuery, TheTokenAndTheCertificateHaveToFit) {
  const auto identity = store::must(serve::make_tls_identity());
  const auto other = store::must(serve::make_tls_identity());
  const std::string token = "0123456789abcdef";
  const ServingNode node({}, {.token = token, .tls = identity});
  const auto answered = [&](const ClientOptions& options) {
    Rows rows;
    const std::vector<NodeAddress> nodes{node.address()};
    const auto answer = query_nodes(nodes, "SELECT 1 AS n", options, rows);
    return answer && answer->answered == 1;
  };
  const std::vector<std::string> right{other.fingerprint, identity.fingerprint};
  EXPECT_TRUE(answered({.token = token, .fingerprints = right, .limit = kLimit}));
  EXPECT_FALSE(answered({.token = "wrong", .fingerprints = right, .limit = kLimit}));
  EXPECT_FALSE(answered({.fingerprints = right, .limit = kLimit}));
  EXPECT_FALSE(answered({.token = token, .fingerprints = {other.fingerprint}, .limit = kLimit}));
  EXPECT_FALSE(answered({.token = token, .authorities = other.certificate, .limit = kLimit}));
  EXPECT_FALSE(answered({.token = token, .limit = kLimit}));  // without TLS
}

TEST(FleetNodes, SayWhatTheyServe) {
  const ServingNode node;
  const BadServer other_version(head("Content-Length: 29\r\n\r\n{\"api\":99,\"recordings\":[]}   "),
                                BadServer::Then::kHangs);
  const std::vector<NodeAddress> nodes{node.address(), node_at(other_version.port())};
  const NodesAnswer answer = ask_nodes(nodes, {.limit = std::chrono::seconds(5)});
  ASSERT_EQ(answer.answered.size(), 1U);
  const NodeAnswer& first = answer.answered[0];
  ASSERT_EQ(first.info.recordings.size(), 1U);
  EXPECT_EQ(first.info.recordings[0].collectives, 400);
  EXPECT_EQ(first.info.recordings[0].from_ns, kOriginNs);
  EXPECT_THAT(first.info.recordings[0].nodes, ElementsAre("node0", "node1", "node2", "node3"));
  EXPECT_LE(std::abs(first.clock.offset_ns), first.clock.error_ns);  // it is the same clock
  EXPECT_GT(first.clock.error_ns, 0);
  ASSERT_EQ(answer.failed.size(), 1U);
  EXPECT_EQ(answer.failed[0].error.kind, ErrorKind::kUnsupported);
}

/// Whatever sets the host's UTC while nodes are asked, their offsets are those from one clock.
TEST(FleetNodes, AreComparedWithTheClockOfTheCommand) {
  const ServingNode first;
  const ServingNode second;
  const std::vector<NodeAddress> nodes{first.address(), second.address()};
  ClockPair begin = read_both_clocks();
  begin.utc_ns += 3600 * kNsPerSecond;
  ClientOptions options{.limit = std::chrono::seconds(5)};
  options.clock = SteadyUtc(begin);
  const NodesAnswer answer = ask_nodes(nodes, options);
  ASSERT_EQ(answer.answered.size(), 2U);
  for (const NodeAnswer& node : answer.answered) {
    EXPECT_NEAR(static_cast<double>(node.clock.offset_ns), -3600.0 * kNsPerSecond,
                static_cast<double>(node.clock.error_ns + kNsPerMs));
  }
}

TEST(FleetNodes, DescriptionsOfOtherForms) {
  for (const std::string wrong :
       {"", "[]", "{}", "{\"api\":1}", "{\"api\":\"1\",\"recordings\":[]}", "{\"api\":1,\"recordings\":{}}"}) {
    EXPECT_FALSE(parse_node_info(wrong)) << wrong;
  }
  const auto strange = parse_node_info(R"({"api":1,"recordings":[7,{"name":7,"nodes":7,"range":[],"bytes":"x"}]})");
  ASSERT_TRUE(strange.has_value());
  EXPECT_EQ(strange->recordings.size(), 2U);
}

}  // namespace
}  // namespace stalltrace::fleet
