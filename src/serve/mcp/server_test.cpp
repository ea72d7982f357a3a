// SPDX-License-Identifier: Apache-2.0
// Both eras, and every error of the protocol.
#include "serve/mcp/server.h"

#include <gmock/gmock.h>

#include "serve/testing/job_file.h"
#include "serve/testing/nothing.h"
#include "tests/support/golden_text.h"

namespace stalltrace::serve::mcp {
namespace {

using testing::HasSubstr;

constexpr const char* kModernMeta =
    R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}})";

class Protocol : public testing::Test {
 protected:
  Json ask(const std::string& method, const std::string& params = "{}") {
    const std::optional<Json> answer =
        server_.answer({.id = Json(7), .method = method, .params = json(params)}, session_);
    EXPECT_TRUE(answer.has_value());
    EXPECT_EQ(at(*answer, "id"), Json(7));
    EXPECT_EQ(at(*answer, "jsonrpc"), Json("2.0"));
    return *answer;
  }
  Json modern(const std::string& method, const std::string& members = "") {
    return ask(method, "{" + members + (members.empty() ? "" : ",") + kModernMeta + "}");
  }
  void open(const std::string& version = "2025-11-25") {
    ask("initialize",
        R"({"protocolVersion":")" + version + R"(","capabilities":{},"clientInfo":{"name":"t","version":"1"}})");
  }
  static int64_t code(const Json& answer) { return *at(answer, "error.code").integer(); }

  NoRecordings recordings_;
  Server server_{recordings_};
  Session session_;
};

/// None of any node: copies all the same.
class NoCopies final : public NoRecordings {
 public:
  [[nodiscard]] bool are_copies() const override { return true; }
  Result<const Gathered*> gather(bool again) override {
    gathered_.asked_ns += again || gathered_.asked_ns == 0 ? 1'000'000'000 : 0;
    return &gathered_;
  }

 private:
  Gathered gathered_{.nodes = 40, .missing = {{"a:1", "late"}, {"b:1", "late"}, {"c\x1b:1", "down"}}};
};

TEST(Copies, EachAnswerStatesTheirAgeAndWhoIsMissingByReason) {
  NoCopies copies;
  Server server(copies);
  Session session{.legacy_version = "2025-11-25"};
  const auto call = [&](const std::string& arguments) {
    return at(*server.answer({.id = Json(1),
                              .method = "tools/call",
                              .params = json(R"({"name":"sql","arguments":{"sql":"SELECT 1")" + arguments + "}}")},
                             session),
              "result");
  };
  const auto utc = [&](const std::string& arguments) {
    return *at(call(arguments), "structuredContent.gathered.utc").text();
  };
  const Json gathered = at(call(""), "structuredContent.gathered");
  EXPECT_EQ(at(gathered, "nodes_asked"), Json(40));
  EXPECT_EQ(at(gathered, "nodes_missing"), Json(3));
  EXPECT_EQ(at(gathered, "missing").dump(), R"([{"problem":{"report_text":"late"},"nodes":"a:1, b:1","nodes_total":2},)"
                                            R"({"problem":{"report_text":"down"},"nodes":"c?:1","nodes_total":1}])");
  EXPECT_GT(at(gathered, "age_s").number(), 0);
  EXPECT_EQ(utc(""), "1970-01-01T00:00:01.000000Z");
  EXPECT_EQ(utc(R"(,"gather_again":false)"), "1970-01-01T00:00:01.000000Z");
  EXPECT_EQ(utc(R"(,"gather_again":true)"), "1970-01-01T00:00:02.000000Z");
  EXPECT_EQ(at(call(R"(,"gather_again":1)"), "isError"), Json(true));
}

TEST_F(Protocol, RecordingsThatAreNoCopiesAreNotGathered) {
  open();
  const Json answer = ask("tools/call", R"({"name":"sql","arguments":{"sql":"SELECT 1","gather_again":true}})");
  EXPECT_EQ(at(answer, "result.isError"), Json(true));
  const Json plain = at(ask("tools/call", R"({"name":"sql","arguments":{"sql":"SELECT 1"}})"), "result");
  EXPECT_EQ(at(plain, "isError"), Json(false));
  EXPECT_EQ(at(plain, "structuredContent").find("gathered"), nullptr);
}

TEST_F(Protocol, InitializeAgreesOnEachLegacyVersionAndOffersTheNewestForAnyOther) {
  for (const auto& [asked, agreed] : std::map<std::string, std::string>{{"2024-11-05", "2024-11-05"},
                                                                        {"2025-03-26", "2025-03-26"},
                                                                        {"2025-06-18", "2025-06-18"},
                                                                        {"2025-11-25", "2025-11-25"},
                                                                        {"2026-07-28", "2025-11-25"},
                                                                        {"1999-01-01", "2025-11-25"}}) {
    const Json answer = ask("initialize", R"({"protocolVersion":")" + asked + R"(","capabilities":{}})");
    EXPECT_EQ(at(answer, "result.protocolVersion"), Json(agreed));
    EXPECT_EQ(at(answer, "result.serverInfo.name"), Json("stalltrace"));
    EXPECT_EQ(at(answer, "result.capabilities").dump(), R"({"tools":{},"resources":{},"prompts":{}})");
    golden::expect_text(*at(answer, "result.instructions").text());
    EXPECT_EQ(at(answer, "result").find("resultType"), nullptr);
  }
}

TEST_F(Protocol, WithoutAVersionNothingButInitializeAndPingIsAnswered) {
  EXPECT_EQ(code(ask("tools/list")), -32602);
  EXPECT_EQ(code(ask("server/discover")), -32602);
  EXPECT_EQ(code(ask("nonsense")), -32602);
  EXPECT_EQ(at(ask("ping"), "result").dump(), "{}");
}

TEST_F(Protocol, ALegacySessionHasPlainResults) {
  open();
  for (const char* method : {"tools/list", "resources/list", "resources/templates/list", "prompts/list"}) {
    const Json result = at(ask(method), "result");
    EXPECT_EQ(result.find("resultType"), nullptr) << method;
    EXPECT_EQ(result.find("ttlMs"), nullptr) << method;
    EXPECT_EQ(result.size(), 1U) << method;
  }
  EXPECT_EQ(at(ask("ping"), "result").dump(), "{}");
  EXPECT_EQ(code(ask("server/discover")), -32601);
  for (const char* method :
       {"resources/subscribe", "logging/setLevel", "completion/complete", "subscriptions/listen", ""}) {
    EXPECT_EQ(code(ask(method)), -32601) << method;
  }
}

TEST_F(Protocol, AModernRequestNeedsNoSession) {
  const Json discovered = at(modern("server/discover"), "result");
  EXPECT_EQ(at(discovered, "supportedVersions").dump(), R"(["2026-07-28"])");
  EXPECT_EQ(at(discovered, "resultType"), Json("complete"));
  EXPECT_EQ(at(discovered, "cacheScope"), Json("public"));
  EXPECT_NE(at(discovered, "ttlMs").integer(), nullptr);
  EXPECT_EQ(at(*at(discovered, "_meta").find("io.modelcontextprotocol/serverInfo"), "name"), Json("stalltrace"));
  for (const char* method : {"tools/list", "resources/list", "resources/templates/list", "prompts/list"}) {
    const Json result = at(modern(method), "result");
    EXPECT_EQ(at(result, "resultType"), Json("complete")) << method;
    EXPECT_NE(result.find("ttlMs"), nullptr) << method;
  }
  const Json prompt = at(modern("prompts/get", R"("name":"hang")"), "result");
  EXPECT_EQ(at(prompt, "resultType"), Json("complete"));
  EXPECT_EQ(prompt.find("ttlMs"), nullptr);
  EXPECT_EQ(code(modern("ping")), -32601);
  EXPECT_EQ(code(modern("initialize", R"("protocolVersion":"2025-11-25")")), -32601);
  EXPECT_FALSE(session_.legacy_version.has_value());
}

TEST_F(Protocol, AModernRequestStatesItsVersionAndCapabilities) {
  const Json other = ask("tools/list", R"({"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}})");
  EXPECT_EQ(code(other), -32022);
  EXPECT_EQ(at(other, "error.data").dump(), R"({"supported":["2026-07-28"],"requested":"2027-01-01"})");
  EXPECT_EQ(code(ask("tools/list", R"({"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}})")), -32602);
  EXPECT_EQ(code(ask("tools/list", R"({"_meta":{"io.modelcontextprotocol/protocolVersion":5}})")), -32602);
  EXPECT_EQ(code(ask("tools/list", R"({"_meta":{}})")), -32602);
  open();
  EXPECT_EQ(code(ask("tools/list", R"({"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}})")), -32022);
}

TEST_F(Protocol, ToolsSayThatTheyOnlyReadAndHaveBothSchemas) {
  open();
  const Json tools = at(ask("tools/list"), "result.tools");
  EXPECT_EQ(tools.size(), 11U);
  for (const Json& tool : *tools.values()) {
    EXPECT_EQ(at(tool, "annotations.readOnlyHint"), Json(true));
    EXPECT_EQ(at(tool, "annotations.idempotentHint"), Json(true));
    EXPECT_EQ(at(tool, "annotations.openWorldHint"), Json(false));
    EXPECT_EQ(at(tool, "inputSchema.type"), Json("object"));
    EXPECT_EQ(at(tool, "inputSchema.additionalProperties"), Json(false));
    EXPECT_EQ(at(tool, "outputSchema.type"), Json("object"));
    EXPECT_GT(at(tool, "description").text()->size(), 40U);
  }
  EXPECT_EQ(ask("tools/list"), ask("tools/list"));
}

TEST_F(Protocol, AnEmptyCursorIsNone) {
  open();
  for (const char* params : {R"({"cursor":null})", R"({"cursor":""})"}) {
    EXPECT_NE(at(ask("tools/list", params), "result.tools").size(), 0U);
  }
}

TEST_F(Protocol, ListsAreOnePage) {
  open();
  EXPECT_EQ(code(ask("tools/list", R"({"cursor":"x"})")), -32602);
  EXPECT_EQ(code(ask("prompts/list", R"({"cursor":"x"})")), -32602);
}

TEST_F(Protocol, AWrongCallOfAToolIsAnErrorOfTheProtocolOrOfTheTool) {
  open();
  EXPECT_EQ(code(ask("tools/call", R"({"name":"nothing"})")), -32602);
  EXPECT_EQ(code(ask("tools/call", R"({"name":5})")), -32602);
  EXPECT_EQ(code(ask("tools/call", R"({})")), -32602);
  EXPECT_EQ(code(ask("tools/call", R"({"name":"health","arguments":[]})")), -32602);
  const Json wrong = at(ask("tools/call", R"({"name":"ranks","arguments":{"rank":"2"}})"), "result");
  EXPECT_EQ(at(wrong, "isError"), Json(true));
  golden::expect_text(*at(wrong, "content.0.text").text());
  EXPECT_EQ(wrong.find("structuredContent"), nullptr);
  const Json failed = at(ask("tools/call", R"({"name":"findings"})"), "result");
  EXPECT_EQ(at(failed, "isError"), Json(true));
  golden::expect_text(*at(failed, "content.0.text").text());
}

TEST_F(Protocol, ResourcesAreRead) {
  open();
  const Json list = at(ask("resources/list"), "result.resources");
  for (const Json& resource : *list.values()) {
    const Json result = at(ask("resources/read", R"({"uri":)" + at(resource, "uri").dump() + "}"), "result");
    EXPECT_EQ(at(result, "contents.0.uri"), at(resource, "uri"));
    EXPECT_EQ(at(result, "contents.0.mimeType"), Json("text/markdown"));
    EXPECT_EQ(static_cast<int64_t>(at(result, "contents.0.text").text()->size()), *at(resource, "size").integer());
    EXPECT_GT(at(result, "contents.0.text").text()->size(), 1000U);
  }
}

TEST_F(Protocol, EveryCauseHasItsSection) {
  open();
#define STALLTRACE_EXPECT_SECTION(enumerator, name)                                                          \
  {                                                                                                          \
    const Json result = at(ask("resources/read", R"({"uri":"stalltrace://causes/)" name R"("})"), "result"); \
    const std::string text = *at(result, "contents.0.text").text();                                          \
    EXPECT_THAT(text, HasSubstr("# `" name "`"));                                                            \
    EXPECT_LT(text.size(), 8000U) << name;                                                                   \
  }
  STALLTRACE_CAUSES(STALLTRACE_EXPECT_SECTION)
#undef STALLTRACE_EXPECT_SECTION
}

TEST_F(Protocol, AResourceThatIsNotThereHasTheErrorOfItsEra) {
  for (const char* uri : {"stalltrace://nothing", "stalltrace://causes/nothing", "file:///etc/passwd", ""}) {
    const std::string member = R"("uri":")" + std::string(uri) + R"(")";
    EXPECT_EQ(code(modern("resources/read", member)), -32602) << uri;
    open();
    EXPECT_EQ(code(ask("resources/read", "{" + member + "}")), -32002) << uri;
  }
  EXPECT_EQ(code(ask("resources/read", R"({"uri":5})")), -32602);
}

TEST_F(Protocol, PromptsTakeTheirArgument) {
  open();
  const Json list = at(ask("prompts/list"), "result.prompts");
  for (const Json& prompt : *list.values()) {
    const std::string argument = *at(prompt, "arguments.0.name").text();
    const Json result = at(ask("prompts/get", R"({"name":)" + at(prompt, "name").dump() + R"(,"arguments":{")" +
                                                  argument + R"(":"+20s"}})"),
                           "result");
    EXPECT_EQ(at(result, "messages.0.role"), Json("user"));
    EXPECT_THAT(*at(result, "messages.0.content.text").text(), HasSubstr("+20s"));
  }
  EXPECT_EQ(code(ask("prompts/get", R"({"name":"nothing"})")), -32602);
  EXPECT_EQ(code(ask("prompts/get", R"({"name":"hang","arguments":{"other":"x"}})")), -32602);
  EXPECT_EQ(code(ask("prompts/get", R"({"name":"hang","arguments":{"since":5}})")), -32602);
  EXPECT_EQ(code(ask("prompts/get", R"({"name":"hang","arguments":[]})")), -32602);
  EXPECT_EQ(code(ask("prompts/get", R"({})")), -32602);
}

TEST_F(Protocol, ANotificationIsNotAnswered) {
  EXPECT_FALSE(server_.answer({.method = "notifications/initialized"}, session_).has_value());
  EXPECT_FALSE(server_.answer({.method = "tools/list"}, session_).has_value());
  EXPECT_FALSE(server_.answer({.method = "initialize", .params = json(R"({"protocolVersion":"2025-11-25"})")}, session_)
                   .has_value());
  EXPECT_FALSE(session_.legacy_version.has_value());
}

}  // namespace
}  // namespace stalltrace::serve::mcp
