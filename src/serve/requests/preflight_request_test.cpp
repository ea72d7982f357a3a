// SPDX-License-Identifier: Apache-2.0
#include "serve/requests/preflight_request.h"

#include <gmock/gmock.h>

namespace stalltrace::serve {
namespace {

PreflightRequest of_rank(int32_t rank) {
  PreflightRequest request{.rank = rank,
                           .ranks = 2,
                           .secret = std::string(64, 'a'),
                           .masters = {"10.0.0.1", "fd00::1"},
                           .port = 7702,
                           .wait_ms = 60'000,
                           .limit_ms = 90'000,
                           .rounds = 31,
                           .test_ms = 300,
                           .test_bytes = 1 << 30,
                           .max_mbit = 100};
  if (rank == 0) {
    request.json = true;
    request.nodes = {"a:7700", "b:7700"};
    request.missing = {{.node = "c:7700", .reason = "Connection refused", .remedy = "start it"},
                       {.node = "d:7700", .reason = "no answer"}};
  }
  return request;
}

/// The body of rank 0's request with one member's text replaced.
std::string changed(const std::string& what, const std::string& by) {
  std::string text = to_json(of_rank(0));
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

TEST(PreflightRequest, ComesBackAsItWas) {
  for (const int32_t rank : {0, 1}) {
    const auto parsed = parse_preflight_request(to_json(of_rank(rank)));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().what;
    EXPECT_EQ(to_json(*parsed), to_json(of_rank(rank)));
    EXPECT_EQ(parsed->masters, of_rank(rank).masters);
    ASSERT_EQ(parsed->missing.size(), rank == 0 ? 2U : 0U);
    if (rank == 0) {
      EXPECT_EQ(parsed->missing[0].remedy, of_rank(0).missing[0].remedy);
      EXPECT_EQ(parsed->missing[1].remedy, "") << "an older version sends none";
    }
  }
  const auto ready = parse_preflight_request(to_json(PreflightRequest{.only_ready = true}));
  ASSERT_TRUE(ready.has_value());
  EXPECT_TRUE(ready->only_ready);
}

TEST(PreflightRequest, OthersAreRefusedWithTheMemberThatIsWrong) {
  for (const auto& [text, member] : std::vector<std::pair<std::string, std::string>>{
           {R"({"ask":"shell"})", "ask"},
           {R"({"ask":"ready","rank":0})", "rank"},
           {changed(R"("rank":0)", R"("rank":2)"), "rank"},
           {changed(R"("rank":0)", R"("rank":-1)"), "rank"},
           {changed(R"("rank":0)", R"("rank":"0")"), "rank"},
           {changed(R"("ranks":2)", R"("ranks":1025)"), "ranks"},
           {changed(R"("ranks":2)", R"("ranks":3)"), "nodes"},
           {changed("aaaa", "aaaA"), "secret"},
           {changed("aaaa", "aaa"), "secret"},
           {changed("10.0.0.1", "gpu01"), "masters"},
           {changed("10.0.0.1", "/dev/null"), "masters"},
           {changed(R"("port":7702)", R"("port":0)"), "port"},
           {changed(R"("port":7702)", R"("port":65536)"), "port"},
           {changed(R"("wait_ms":60000)", R"("wait_ms":600001)"), "wait_ms"},
           {changed(R"("limit_ms":90000)", R"("limit_ms":1800001)"), "limit_ms"},
           {changed(R"("test_ms":300)", R"("test_ms":60001)"), "test_ms"},
           {changed(R"("test_bytes":1073741824)", R"("test_bytes":0)"), "test_bytes"},
           {changed(R"("max_mbit":100)", R"("max_mbit":-1)"), "max_mbit"},
           {changed(R"("format":"json")", R"("format":"html")"), "format"},
           {changed("a:7700", ""), "nodes"},
           {changed("a:7700", std::string(kLongestNodeName + 1, 'a')), "nodes"},
           {changed(R"("reason":"Connection refused")", R"("reason":7)"), "missing"},
           {changed(R"("reason":)", R"("path":)"), "missing"},
           {changed(R"("remedy":)", R"("path":)"), "missing"},
           {changed("start it", ""), "missing"},
           {changed("start it", std::string(kLongestReason + 1, 'a')), "missing"},
           {changed(R"("port":7702)", R"("port":7702,"command":"x")"), "command"}}) {
    const auto parsed = parse_preflight_request(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(parsed.error().what, testing::HasSubstr("'" + member + "'")) << text;
  }
  for (const char* text : {"", "[]", "7", "{", R"({"ask":[[[[[]]]]]})"}) {
    EXPECT_FALSE(parse_preflight_request(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace stalltrace::serve
