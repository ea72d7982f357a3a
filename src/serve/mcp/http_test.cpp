// SPDX-License-Identifier: Apache-2.0
// MCP over HTTP: both eras, what headers have to say, statuses.
#include "serve/mcp/http.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "serve/testing/job_file.h"
#include "serve/testing/nothing.h"

namespace stalltrace::serve::mcp {
namespace {

using Headers = std::map<std::string, std::string>;

std::string message(const std::string& method, const std::string& params = "{}") {
  return R"({"jsonrpc":"2.0","id":7,"method":")" + method + R"(","params":)" + params + "}";
}
/// With params._meta of 2026-07-28; `members` end in a comma, or are empty.
std::string modern(const std::string& method, const std::string& members = "",
                   const std::string& version = "2026-07-28") {
  return message(method, "{" + members + R"("_meta":{"io.modelcontextprotocol/protocolVersion":")" + version +
                             R"(","io.modelcontextprotocol/clientCapabilities":{}}})");
}
Headers modern_headers(const std::string& method, const Headers& others = {}) {
  Headers headers{{"mcp-protocol-version", "2026-07-28"}, {"mcp-method", method}};
  for (const auto& [name, value] : others) {
    headers[name] = value;
  }
  return headers;
}

class McpHttp : public testing::Test {
 protected:
  HttpAnswer post(const std::string& body, Headers headers = {}) {
    headers.try_emplace("content-type", "application/json");
    headers.try_emplace("accept", "application/json, text/event-stream");
    std::erase_if(headers, [](const auto& header) { return header.second == "none"; });
    return answer_http(server_, {.method = "POST", .path = "/mcp", .headers = std::move(headers), .body = body});
  }
  /// The status, and the error's code or 0.
  std::pair<int, int64_t> refused(const std::string& body, const Headers& headers = {}) {
    const HttpAnswer answer = post(body, headers);
    const Json parsed = answer.body.empty() ? Json() : json(answer.body);
    const Json* error = parsed.find("error");
    const Json* code = error == nullptr ? nullptr : error->find("code");
    return {answer.status, code == nullptr || code->integer() == nullptr ? 0 : *code->integer()};
  }

  NoRecordings none_;
  std::timed_mutex turns_;
  Server server_{none_, &turns_};
};

using Refused = std::pair<int, int64_t>;

TEST_F(McpHttp, AHandshakeThenRequestsWithItsVersion) {
  const HttpAnswer opened = post(message("initialize", R"({"protocolVersion":"2025-11-25"})"));
  EXPECT_EQ(opened.status, 200);
  EXPECT_EQ(opened.content_type, "application/json");
  EXPECT_TRUE(opened.headers.empty()) << "there are no sessions";
  EXPECT_EQ(at(json(opened.body), "result.protocolVersion"), Json("2025-11-25"));
  const HttpAnswer notified = post(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
  EXPECT_EQ(notified.status, 202);
  EXPECT_EQ(notified.body, "");
  for (const std::string version : {"2025-11-25", "2025-06-18", "2025-03-26", "none"}) {
    const Json listed = json(post(message("tools/list"), {{"mcp-protocol-version", version}}).body);
    EXPECT_EQ(at(listed, "id"), Json(7));
    EXPECT_EQ(at(listed, "result.tools").size(), server_.tools().size()) << version;
    EXPECT_EQ(at(listed, "result").find("resultType"), nullptr);
  }
  EXPECT_EQ(post(R"({"jsonrpc":"2.0","id":1,"result":{}})").status, 202);
}

TEST_F(McpHttp, ARequestThatStatesItsVersion) {
  const Json found = json(post(modern("server/discover"), modern_headers("server/discover")).body);
  EXPECT_EQ(at(found, "result.supportedVersions.0"), Json("2026-07-28"));
  const HttpAnswer listed = post(modern("tools/list"), modern_headers("tools/list"));
  EXPECT_EQ(listed.status, 200);
  EXPECT_EQ(at(json(listed.body), "result.resultType"), Json("complete"));
}

TEST_F(McpHttp, HeadersHaveToSayWhatTheMessageSays) {
  constexpr Refused kMismatch{400, -32020};
  const std::string list = modern("tools/list");
  EXPECT_EQ(refused(list), kMismatch);
  EXPECT_EQ(refused(list, {{"mcp-protocol-version", "2026-07-28"}}), kMismatch);
  EXPECT_EQ(refused(list, modern_headers("tools/call")), kMismatch);
  EXPECT_EQ(refused(list, modern_headers("Tools/list")), kMismatch);
  EXPECT_EQ(refused(list, modern_headers("tools/list", {{"mcp-protocol-version", "2025-11-25"}})), kMismatch);
  EXPECT_EQ(refused(message("ping"), {{"mcp-protocol-version", "2026-07-28"}}), kMismatch);
  const std::string call = modern("tools/call", R"("name":"health",)");
  for (const std::string name : {"none", "findings", "", "=?base64?ZmluZGluZ3M=?=", "=?base64?health?=",
                                 "=?base64?"
                                 "?="}) {
    EXPECT_EQ(refused(call, modern_headers("tools/call", {{"mcp-name", name}})), kMismatch) << name;
  }
  for (const std::string name : {"health", "=?base64?aGVhbHRo?="}) {
    EXPECT_EQ(refused(call, modern_headers("tools/call", {{"mcp-name", name}})), Refused(200, 0)) << name;
  }
  const std::string read = modern("resources/read", R"("uri":"stalltrace://runbook",)");
  EXPECT_EQ(refused(read, modern_headers("resources/read", {{"mcp-name", "stalltrace://causes"}})), kMismatch);
  EXPECT_EQ(refused(read, modern_headers("resources/read", {{"mcp-name", "stalltrace://runbook"}})), Refused(200, 0));
  const std::string strange = modern("prompts/get", R"("name":"h\u00e4ng",)");
  EXPECT_EQ(refused(strange, modern_headers("prompts/get", {{"mcp-name", "h\u00e4ng"}})), kMismatch);
  EXPECT_EQ(refused(strange, modern_headers("prompts/get", {{"mcp-name", "=?base64?aMOkbmc=?="}})),
            Refused(200, -32602));
}

TEST_F(McpHttp, VersionsThatDoNotExist) {
  EXPECT_EQ(refused(message("tools/list"), {{"mcp-protocol-version", "1999-01-01"}}), Refused(400, -32022));
  EXPECT_EQ(refused(modern("tools/list", "", "2027-01-01"),
                    {{"mcp-protocol-version", "2027-01-01"}, {"mcp-method", "tools/list"}}),
            Refused(400, -32022));
  EXPECT_EQ(refused(message("tools/list"), modern_headers("tools/list")), Refused(400, -32602));
}

TEST_F(McpHttp, AnUnknownMethod) {
  EXPECT_EQ(refused(modern("tools/none"), modern_headers("tools/none")), Refused(404, -32601));
  EXPECT_EQ(refused(message("tools/none"), {{"mcp-protocol-version", "2025-11-25"}}), Refused(200, -32601));
}

TEST_F(McpHttp, WhatIsNoMessage) {
  for (const auto& [body, code] : std::initializer_list<std::pair<std::string, int64_t>>{
           {"", -32700},
           {"{", -32700},
           {"\xff", -32700},
           {"5", -32600},
           {"{}", -32600},
           {R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})", -32600}}) {
    EXPECT_EQ(refused(body), Refused(400, code)) << body;
  }
}

TEST_F(McpHttp, SeveralMessagesAreAThingOfOneVersion) {
  const std::string batch = "[" + message("ping") + R"(,{"jsonrpc":"2.0","method":"notifications/initialized"}])";
  EXPECT_EQ(json(post(batch).body).size(), 1U);
  EXPECT_EQ(refused(batch, {{"mcp-protocol-version", "2025-11-25"}}), Refused(400, -32600));
  EXPECT_EQ(refused("[]"), Refused(400, -32600));
  EXPECT_EQ(post(R"([{"jsonrpc":"2.0","method":"notifications/initialized"}])").status, 202);
}

TEST_F(McpHttp, WhatIsSentAndTakenIsJson) {
  for (const auto& [type, status] : std::initializer_list<std::pair<std::string, int>>{
           {"Application/JSON; charset=utf-8", 200}, {"text/plain", 415}, {"", 415}, {"none", 415}}) {
    EXPECT_EQ(post(message("ping"), {{"content-type", type}}).status, status) << type;
  }
  for (const auto& [accept, status] :
       std::initializer_list<std::pair<std::string, int>>{{"text/event-stream, Application/json;q=0.9", 200},
                                                          {"*/*", 200},
                                                          {"none", 200},
                                                          {"text/event-stream", 406},
                                                          {"", 406}}) {
    EXPECT_EQ(post(message("ping"), {{"accept", accept}}).status, status) << accept;
  }
}

TEST_F(McpHttp, AToolWaitsForItsTurnAndNothingElseDoes) {
  std::unique_lock held(turns_);
  std::atomic<bool> may_begin = false;
  std::atomic<bool> asks = false;
  const std::jthread tool([&] {
    asks = true;
    asks.notify_one();
    EXPECT_EQ(post(message("tools/call", R"({"name":"health"})")).status, 200);
    EXPECT_TRUE(may_begin);
  });
  asks.wait(false);
  EXPECT_EQ(post(message("tools/list")).status, 200);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // in which a tool that does not wait answers
  may_begin = true;
  held.unlock();
}

}  // namespace
}  // namespace stalltrace::serve::mcp
