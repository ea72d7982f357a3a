// SPDX-License-Identifier: Apache-2.0
// Lines in, lines out: framing, ids, cancellation, batches, limits; and the same over pipes.
#include "serve/mcp/connection.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <thread>

#include "serve/mcp/stdio.h"
#include "serve/testing/job_file.h"
#include "serve/testing/nothing.h"
#include "tests/support/golden_text.h"

namespace stalltrace::serve::mcp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string request(int id, const std::string& method, const std::string& params = "{}") {
  return R"({"jsonrpc":"2.0","id":)" + std::to_string(id) + R"(,"method":")" + method + R"(","params":)" + params + "}";
}
std::string initialize(int id, const std::string& version = "2025-11-25") {
  return request(id, "initialize", R"({"protocolVersion":")" + version + R"("})");
}

class Lines : public testing::Test {
 protected:
  std::vector<Json> answers() {
    std::vector<Json> all;
    while (!connection_.idle()) {
      if (const std::optional<std::string> line = connection_.next()) {
        EXPECT_EQ(line->find('\n'), std::string::npos);
        all.push_back(json(*line));
      }
    }
    return all;
  }
  std::vector<Json> answers_to(const std::string& line) {
    connection_.receive(line);
    return answers();
  }
  /// The code of the only answer, which is an error with this id; none: without an id.
  int64_t refused(const std::string& line, const std::optional<Json>& id) {
    const std::vector<Json> all = answers_to(line);
    EXPECT_EQ(all.size(), 1U) << line;
    if (all.empty()) {
      return 0;
    }
    const Json* own = all[0].find("id");
    EXPECT_EQ(own == nullptr ? std::nullopt : std::optional(*own), id) << line;
    return *at(all[0], "error.code").integer();
  }
  static std::vector<int64_t> ids(const std::vector<Json>& all) {
    std::vector<int64_t> found;
    for (const Json& one : all) {
      found.push_back(*at(one, "id").integer());
    }
    return found;
  }

  NoRecordings recordings_;
  Server server_{recordings_};
  Connection connection_{server_};
};

TEST_F(Lines, WhatIsNoMessageIsRefused) {
  EXPECT_EQ(refused("{", std::nullopt), -32700);
  EXPECT_EQ(refused("\xff\xfe", std::nullopt), -32700);
  EXPECT_EQ(refused(std::string(100, '['), std::nullopt), -32700);
  EXPECT_EQ(refused("5", std::nullopt), -32600);
  EXPECT_EQ(refused("null", std::nullopt), -32600);
  EXPECT_EQ(refused("{}", std::nullopt), -32600);
  EXPECT_EQ(refused(R"({"jsonrpc":"1.0","id":1,"method":"ping"})", Json(1)), -32600);
  EXPECT_EQ(refused(R"({"jsonrpc":"2.0","id":1})", Json(1)), -32600);
  EXPECT_EQ(refused(R"({"jsonrpc":"2.0","id":1,"method":5})", Json(1)), -32600);
  EXPECT_EQ(refused(R"({"jsonrpc":"2.0","id":"a","method":"ping","params":[]})", Json("a")), -32602);
  const Answered<Message> read = read_message(json(R"({"jsonrpc":"2.0","id":5.0,"method":"ping","params":null})"));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->id, Json(5));
  EXPECT_EQ(read->params, Json::object());
  EXPECT_FALSE(read_message(json(R"({"jsonrpc":"2.0","id":5.5,"method":"ping"})")).has_value());
  for (const char* id : {"null", "1.5", "true", "[]", "{}", "18446744073709551615"}) {
    EXPECT_EQ(refused(R"({"jsonrpc":"2.0","method":"ping","id":)" + std::string(id) + "}", std::nullopt), -32600) << id;
  }
  EXPECT_THAT(answers_to(""), IsEmpty());
  EXPECT_THAT(answers_to("  \r"), IsEmpty());
}

TEST_F(Lines, AnswersOfTheClientAreIgnored) {
  EXPECT_THAT(answers_to(R"({"jsonrpc":"2.0","id":1,"result":{}})"), IsEmpty());
  EXPECT_THAT(answers_to(R"({"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}})"), IsEmpty());
}

TEST_F(Lines, ATooLongLineIsRefused) {
  connection_.receive_too_long();
  const std::vector<Json> all = answers();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(at(all[0], "error.code"), Json(-32600));
}

TEST_F(Lines, RequestsAreAnsweredInOrderAndAPingAtOnce) {
  connection_.receive(initialize(1));
  connection_.receive(request(2, "tools/list"));
  connection_.receive(request(3, "ping"));
  EXPECT_THAT(ids(answers()), ElementsAre(3, 1, 2));
}

TEST_F(Lines, AnIdThatIsNotAnsweredYetIsNotUsedTwice) {
  connection_.receive(initialize(1));
  connection_.receive(request(2, "tools/list"));
  connection_.receive(request(2, "prompts/list"));
  const std::vector<Json> all = answers();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].find("id"), nullptr);
  EXPECT_EQ(at(all[0], "error.code"), Json(-32600));
  EXPECT_NE(at(all[2], "result").find("tools"), nullptr);
  EXPECT_EQ(answers_to(request(2, "prompts/list")).size(), 1U);  // answered: free again
}

TEST_F(Lines, ARequestThatWaitsIsCancelled) {
  const auto cancel = [](const std::string& id) {
    return R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":)" + id + "}}";
  };
  connection_.receive(initialize(1));
  connection_.receive(request(2, "tools/list"));
  connection_.receive(request(3, "prompts/list"));
  connection_.receive(cancel("2"));
  connection_.receive(cancel("1"));  // must not be cancelled
  connection_.receive(cancel("99"));
  connection_.receive(cancel("{}"));
  connection_.receive(R"({"jsonrpc":"2.0","method":"notifications/cancelled"})");
  connection_.receive(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":5})");
  EXPECT_THAT(ids(answers()), ElementsAre(1, 3));
}

TEST_F(Lines, BatchesAreOfOneVersion) {
  const std::string batch = "[" + request(5, "tools/list") + "," + request(6, "nothing") + "]";
  EXPECT_EQ(refused(batch, std::nullopt), -32600);
  answers_to(initialize(1, "2025-06-18"));
  EXPECT_EQ(refused(batch, std::nullopt), -32600);
  answers_to(initialize(2, "2025-03-26"));
  const std::vector<Json> all = answers_to(batch);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].size(), 2U);
  EXPECT_EQ(at(all[0], "0.id"), Json(5));
  EXPECT_EQ(at(all[0], "1.error.code"), Json(-32601));
  EXPECT_EQ(refused("[]", std::nullopt), -32600);
  EXPECT_EQ(at(answers_to("[" + initialize(9) + "]").at(0), "0.error.code"), Json(-32600));
  EXPECT_EQ(at(answers_to("[5]").at(0), "0.error.code"), Json(-32600));
  EXPECT_THAT(answers_to(R"([{"jsonrpc":"2.0","method":"notifications/initialized"}])"), IsEmpty());
  std::string many = "[";
  for (size_t i = 0; i <= Connection::kMostInBatch; ++i) {
    many += (i > 0 ? "," : "") + request(static_cast<int>(i), "ping");
  }
  EXPECT_EQ(refused(many + "]", std::nullopt), -32600);
}

TEST_F(Lines, ItIsFullAtItsLimit) {
  for (size_t i = 0; i < Connection::kMostWaiting; ++i) {
    EXPECT_FALSE(connection_.full());
    connection_.receive(request(static_cast<int>(i), "tools/list"));
  }
  EXPECT_TRUE(connection_.full());
}

class Pipes : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::pipe(in_), 0);
    ASSERT_EQ(::pipe(out_), 0);
  }
  /// Serves `input` to its end; returns what was written.
  std::string served(const std::string& input) {
    std::thread writer([&] {
      for (std::string_view rest = input; !rest.empty();) {
        const ssize_t wrote = ::write(in_[1], rest.data(), rest.size());
        if (wrote <= 0) {
          break;
        }
        rest.remove_prefix(static_cast<size_t>(wrote));
      }
      ::close(in_[1]);
    });
    std::string output;
    std::thread reader([&] {
      std::array<char, 4096> bytes{};
      for (ssize_t got = 0; (got = ::read(out_[0], bytes.data(), bytes.size())) > 0;) {
        output.append(bytes.data(), static_cast<size_t>(got));
      }
      ::close(out_[0]);
    });
    NoRecordings recordings;
    Server server(recordings);
    EXPECT_TRUE(serve_stream(server, in_[0], out_[1]).has_value());
    ::close(in_[0]);
    ::close(out_[1]);
    writer.join();
    reader.join();
    return output;
  }

  int in_[2] = {-1, -1};
  int out_[2] = {-1, -1};
};

TEST_F(Pipes, ServesUntilTheInputEnds) {
  const std::string output = served(initialize(1) + "\r\n\n" + request(2, "tools/list") + "\n" + request(3, "ping"));
  EXPECT_EQ(std::ranges::count(output, '\n'), 3);
  EXPECT_THAT(output, HasSubstr(R"("id":3)"));  // the last line has no end
}

TEST_F(Pipes, GoesOnAfterATooLongLine) {
  const std::string output =
      served(std::string(3 * Connection::kMostLineBytes, 'x') + "\n" + request(1, "ping") + "\n");
  golden::expect_text(output);
  EXPECT_THAT(output, HasSubstr(R"("id":1,"result")"));
  EXPECT_EQ(std::ranges::count(output, '\n'), 2);
}

TEST_F(Pipes, ManyRequestsAtOnceAreAllAnswered) {
  std::string input = initialize(0) + "\n";
  for (int id = 1; id <= 1000; ++id) {
    input += request(id, "ping") + "\n";
  }
  const std::string output = served(input);
  EXPECT_EQ(std::ranges::count(output, '\n'), 1001);
}

TEST_F(Pipes, AClosedOutputEndsIt) {
  ::signal(SIGPIPE, SIG_IGN);
  ::close(out_[0]);
  const std::string input = request(1, "ping") + "\n";
  ASSERT_EQ(::write(in_[1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
  NoRecordings recordings;
  Server server(recordings);
  EXPECT_TRUE(serve_stream(server, in_[0], out_[1]).has_value());  // although the input goes on
  ::close(in_[0]);
  ::close(in_[1]);
  ::close(out_[1]);
}

}  // namespace
}  // namespace stalltrace::serve::mcp
