// SPDX-License-Identifier: Apache-2.0
#include "serve/http/api.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "base/file.h"
#include "serve/testing/http_api.h"
#include "serve/testing/job_file.h"
#include "tests/support/source_tree.h"

namespace stalltrace::serve {
namespace {

using namespace analysis::small_job;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(HttpApi, ValuesAndRowsHaveASize) {
  EXPECT_EQ(query("SELECT length(zeroblob(1000000))").status, 200);
  EXPECT_EQ(query("SELECT zeroblob(15000000)").status, 400);
  EXPECT_EQ(query("SELECT length(zeroblob(15000000))").status, 400);
  EXPECT_EQ(query("SELECT zeroblob(600000), zeroblob(600000)").status, 400);
}

TEST_F(HttpApi, AQueryEndsWhenItsClientLeaves) {
  const std::atomic<bool> gone = true;
  HttpRequest request{.method = "POST",
                      .path = "/v1/query",
                      .body = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
                      .gone = &gone};
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(api_->answer(request).status, 504);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(HttpApi, SqlIsRunOnEachRecording) {
  const HttpAnswer answer = query("SELECT count(*) AS n, 5.0 AS real FROM collective", "");
  EXPECT_EQ(answer.status, 200);
  const std::string of_both = R"("nodes":["node0","node1","node2","node3"],"runs":["1 1800000000000000000 boot",)"
                              R"("2 1800000000000000000 boot","3 1800000000000000000 boot",)"
                              R"("4 1800000000000000000 boot"],"columns":["n","real"]})";
  EXPECT_EQ(answer.body, R"({"recording":"a.db",)" + of_both + "\n[400,5.0]\n" + R"({"recording":"b.db",)" + of_both +
                             "\n[400,5.0]\n" + R"({"end":true,"rows":2,"truncated":false})" + "\n");
}

TEST_F(HttpApi, SqlOnlyReads) {
  for (const std::string sql :
       {"DELETE FROM node", "INSERT INTO node(name) VALUES ('x')", "DROP TABLE node", "CREATE TABLE t(a)",
        "ATTACH '/etc/passwd' AS other", "VACUUM INTO '/tmp/stalltrace-stolen.db'", "PRAGMA journal_mode = DELETE",
        "PRAGMA query_only = OFF", "SELECT load_extension('x')", "SELECT readfile('/etc/passwd')",
        "SELECT writefile('x', 'y')", "SELECT 1; DELETE FROM node", "", ";", "BEGIN"}) {
    EXPECT_EQ(query(sql).status, 400) << sql;
  }
  EXPECT_EQ(query("SELECT count(*) FROM node").status, 200);
}

TEST_F(HttpApi, SqlHasLimits) {
  constexpr const char* kEndless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT ";
  EXPECT_EQ(query(std::string(kEndless) + "count(*) FROM n", "?timeout_ms=50&recording=a.db").status, 504);
  const HttpAnswer few = query(std::string(kEndless) + "i FROM n", "?limit=3&recording=a.db");
  EXPECT_TRUE(few.body.ends_with("[3]\n{\"end\":true,\"rows\":3,\"truncated\":true}\n")) << few.body;
  const HttpAnswer many = query(std::string(kEndless) + "printf('%1000d', i) FROM n", "?recording=a.db");
  EXPECT_THAT(many.body, HasSubstr("\"truncated\":true"));
  EXPECT_LT(many.body.size(), size_t{2} << 20);
  for (const std::string wrong : {"?limit=0", "?limit=x", "?timeout_ms=-1"}) {
    EXPECT_EQ(query("SELECT 1", wrong).status, 400) << wrong;
  }
}

TEST_F(HttpApi, NoPathReachesTheFileSystem) {
  for (const std::string& name :
       {folder_ / "a.db", std::string("../a.db"), std::string("/etc/passwd"), std::string("%2e%2e/a.db"),
        std::string("a.db%2f"), std::string("A.DB"), std::string()}) {
    EXPECT_EQ(get("/v1/recording?recording=" + name).status, 404) << name;
    EXPECT_EQ(query("SELECT 1", "?recording=" + name).status, 404) << name;
  }
  for (const std::string path :
       {"/v1", "/v1/node/", "/v1/../v1/node", "//v1/node", "/v1/recording/a.db", "/etc/passwd", "/"}) {
    EXPECT_EQ(get(path).status, 404) << path;
  }
}

TEST_F(HttpApi, MethodsThatAPathDoesNotTake) {
  const HttpAnswer answer = get("/v1/query");
  EXPECT_EQ(answer.status, 405);
  EXPECT_THAT(answer.headers, ElementsAre(std::pair("Allow", "POST")));
  EXPECT_EQ(api_->answer({.method = "POST", .path = "/v1/node"}).status, 405);
  EXPECT_THAT(api_->answer({.method = "PUT", .path = "/v1/findings"}).headers,
              ElementsAre(std::pair("Allow", "GET, POST")));
}

TEST_F(HttpApi, NothingIsTakenInUnlessTheOperatorAllowsIt) {
  HttpRequest request{.method = "POST", .path = "/v1/recordings", .headers = {{"stalltrace-bytes", "10"}}};
  EXPECT_EQ(api_->answer(request).status, 403);
  const Upload upload = api_->begin_upload(request);
  EXPECT_FALSE(upload.body);
  EXPECT_EQ(upload.refusal.status, 403);
  EXPECT_EQ(api_->answer({.method = "POST", .path = "/v1/findings", .body = "{}"}).status, 403);
  request.method = "GET";
  EXPECT_EQ(api_->begin_upload(request).refusal.status, 405);
}

TEST_F(HttpApi, ARecordingIsTakenIn) {
  const auto accepted = store::must(AcceptedFolder::open(folder_ / "accepted", {}));
  ApiOptions with_folder = options();
  with_folder.accepted = accepted.get();
  api_ = std::make_unique<Api>(*recordings_, with_folder);
  const HttpAnswer sent = get("/v1/recording?recording=a.db");
  std::string body;
  for (std::string piece = *sent.next_piece(); !piece.empty(); piece = *sent.next_piece()) {
    body += piece;
  }
  HttpRequest request{.method = "POST",
                      .path = "/v1/recordings",
                      .headers = {{"stalltrace-bytes", sent.headers.front().second}},
                      .body = body};
  const HttpAnswer answer = api_->answer(request);
  EXPECT_EQ(answer.status, 200) << answer.body;
  const std::string name = *at(json(answer.body), "name").text();
  EXPECT_TRUE(store::bytes_of(accepted->path() + "/" + name) == store::bytes_of(folder_ / "a.db"));
}

TEST_F(HttpApi, ANodeSaysWhatItServes) {
  const Json node = json(get("/v1/node").body);
  EXPECT_EQ(at(node, "api"), Json(kApiVersion));
  EXPECT_EQ(at(node, "recordings.1.name"), Json("b.db"));
  EXPECT_EQ(at(node, "recordings.0.nodes.2.name"), Json("node2"));
  EXPECT_EQ(at(node, "recordings.0.range.collectives"), Json(400));
  EXPECT_EQ(at(node, "recordings.0.range.from_ns"), Json(kOriginNs));
  EXPECT_EQ(at(node, "recordings.0.lost_events"), Json(0));
  EXPECT_EQ(at(node, "recordings.1.lost_events"), Json(7)) << "a mapping whose process is examined as a whole is none";
  EXPECT_GT(*at(json(get("/v1/clock").body), "now_ns").integer(), 0);
  std::filesystem::remove(folder_ / "b.db");
  EXPECT_NE(at(json(get("/v1/node").body), "recordings.1.problem").text(), nullptr);
}

TEST_F(HttpApi, RowsAreOfOneRecordingAndOfTablesThatItHas) {
  const auto rows = [&](const std::string& body, const std::map<std::string, std::string>& parameters) {
    return api_->answer({.method = "POST", .path = "/v1/rows", .query = parameters, .body = body});
  };
  const std::string body = R"({"reads":[{"table":"collective"}]})";
  EXPECT_EQ(rows(body, {}).status, 400) << "there are two";
  EXPECT_EQ(rows(body, {{"recording", "c.db"}}).status, 404);
  EXPECT_EQ(rows(R"({"reads":[{"table":"sqlite_schema"}]})", {{"recording", "a.db"}}).status, 400);
  EXPECT_EQ(rows("", {{"recording", "a.db"}}).status, 400);
  const HttpAnswer answer = rows(body, {{"recording", "a.db"}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.takes_room);
  ASSERT_TRUE(answer.next_piece);
  EXPECT_FALSE(answer.next_piece().value_or("").empty());
}

/// Clients may read slowly, or not at all.
TEST_F(HttpApi, RowsThatAreNotSentYetHaveALimitTogether) {
  const HttpRequest request{.method = "POST",
                            .path = "/v1/rows",
                            .query = {{"recording", "a.db"}},
                            .body = R"({"reads":[{"table":"collective"}]})"};
  int64_t bytes = 0;
  const HttpAnswer whole = api_->answer(request);
  for (std::string piece = whole.next_piece().value_or(""); !piece.empty(); piece = whole.next_piece().value_or("")) {
    bytes += std::ssize(piece);
  }
  ApiOptions limited = options();
  limited.most_rows_bytes = bytes * 3 / 2;
  Api api(*recordings_, limited);
  {
    const HttpAnswer waiting = api.answer(request);
    EXPECT_EQ(waiting.status, 200);
    const HttpAnswer beyond = api.answer(request);
    EXPECT_EQ(beyond.status, 503);
    EXPECT_FALSE(beyond.next_piece);
    EXPECT_THAT(beyond.headers, ElementsAre(std::pair("Retry-After", "5")));
    EXPECT_NE(at(json(beyond.body), "error").text(), nullptr);
  }
  EXPECT_EQ(api.answer(request).status, 200) << "what was sent, or given up, takes no more room";
  limited.most_rows_bytes = bytes - 1;
  EXPECT_EQ(Api(*recordings_, limited).answer(request).status, 507) << "it alone is too large";
}

TEST_F(HttpApi, PreflightNeedsTheOperatorsConsentAndAWholeRequest) {
  const auto post = [](Api& api, const std::string& body) {
    return api.answer({.method = "POST", .path = "/v1/preflight", .body = body});
  };
  const std::string ready = to_json(PreflightRequest{.only_ready = true});
  EXPECT_EQ(post(*api_, ready).status, 403);
  int asked = 0;
  Api allowed(*recordings_, {.preflight = [&](const PreflightRequest& request) {
    EXPECT_TRUE(request.only_ready);
    return ++asked == 1 ? HttpAnswer{.body = "{}"} : answer_of_error(409, "busy", "later");
  }});
  EXPECT_EQ(post(allowed, ready).status, 200);
  EXPECT_EQ(post(allowed, ready).status, 409);
  EXPECT_EQ(post(allowed, R"({"ask":"tests"})").status, 400);
  EXPECT_EQ(allowed.answer({.method = "GET", .path = "/v1/preflight"}).status, 405);
  EXPECT_EQ(asked, 2);
}

TEST_F(HttpApi, ANodeSaysWhatItsClocksAreAndHowFarTheyMayBeOff) {
  HostClock clock{.now_ns = 50, .monotonic_ns = 7, .boot_id = "b", .utc_error_ns = 3};
  Api api(*recordings_, {.clock = [&] { return clock; }});
  EXPECT_EQ(api.answer({.method = "GET", .path = "/v1/clock"}).body,
            "{\"api\":1,\"now_ns\":50,\"monotonic_ns\":7,\"boot_id\":\"b\"}\n");
  EXPECT_EQ(at(json(api.answer({.method = "GET", .path = "/v1/node"}).body), "utc_error_ns"), Json(3));
  clock.utc_error_ns.reset();
  EXPECT_EQ(at(json(api.answer({.method = "GET", .path = "/v1/node"}).body), "utc_error_ns"), Json());
  EXPECT_GT(read_host_clock().monotonic_ns, 0);
  EXPECT_FALSE(read_host_clock().boot_id.empty());
}

TEST(HttpRoutes, AreThoseOfTheDescription) {
  const auto file = read_file(source_path("docs/openapi.json"));
  ASSERT_TRUE(file.has_value());
  const Json description = json(*file);
  std::vector<std::string> described;
  const Json paths = at(description, "paths");
  for (const auto& [path, operations] : *paths.members()) {
    for (const auto& [method, operation] : *operations.members()) {
      described.push_back(method + " " + path + ": " + *at(operation, "summary").text());
    }
  }
  std::vector<std::string> routes;
  for (const Api::Route& route : Api::routes()) {
    std::string method(route.method);
    std::ranges::transform(method, method.begin(), [](char c) { return static_cast<char>(c | 0x20); });
    routes.push_back(fmt::format("{} {}: {}", method, route.path, route.summary));
  }
  EXPECT_THAT(described, testing::ElementsAreArray(routes));
  EXPECT_EQ(at(description, "info.version"), Json(std::to_string(kApiVersion)));
}

TEST_F(HttpApi, FindingsAreOfAllRecordings) { EXPECT_EQ(get("/v1/findings").body, "400"); }

/// What the pieces decompress to.
std::string content_of(const HttpAnswer& answer) {
  std::string compressed;
  for (;;) {
    const auto piece = answer.next_piece();
    EXPECT_TRUE(piece.has_value());
    if (!piece || piece->empty()) {
      break;
    }
    compressed += *piece;
  }
  std::string content(size_t{64} << 20, '\0');
  ZSTD_DCtx* stream = ZSTD_createDCtx();
  ZSTD_inBuffer from{compressed.data(), compressed.size(), 0};
  ZSTD_outBuffer to{content.data(), content.size(), 0};
  EXPECT_EQ(ZSTD_decompressStream(stream, &to, &from), 0U);
  ZSTD_freeDCtx(stream);
  content.resize(to.pos);
  return content;
}

TEST_F(HttpApi, ARecordingIsSentAsItIs) {
  const HttpAnswer answer = get("/v1/recording?recording=b.db");
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(content_of(answer), store::bytes_of(folder_ / "b.db"));
  EXPECT_EQ(get("/v1/recording").status, 400);  // which one?
}

TEST_F(HttpApi, ARecordingThatIsWrittenIsSentAsItIsNow) {
  const std::string path = folder_ / "live.db";
  const auto writer = store::must(store::RecordingWriter::create(path));
  writer->accept(store::node_row(9, "live"));
  for (uint64_t i = 1; i <= 1000; ++i) {
    writer->accept(store::collective_row(9, i, static_cast<int64_t>(i), 5));
  }
  store::must(writer->flush());
  const auto recordings = recordings_in_files({path});
  Api api(*recordings, options());
  const HttpAnswer answer = api.answer({.method = "GET", .path = "/v1/recording"});
  ASSERT_EQ(answer.status, 200) << answer.body;
  for (uint64_t i = 1001; i <= 2000; ++i) {
    writer->accept(store::collective_row(9, i, static_cast<int64_t>(i), 5));
  }
  store::must(writer->flush());
  std::ofstream(folder_ / "copy.db") << content_of(answer);
  EXPECT_EQ(store::collectives_of(*store::must(store::open_recording(folder_ / "copy.db"))).size(), 1000U);
  EXPECT_THAT(folder_.names(), testing::Not(testing::Contains(testing::Not(testing::AnyOf(
                                   "a.db", "b.db", "copy.db", "live.db", "live.db-wal", "live.db-shm")))));
  store::must(writer->close());
}

/// All that was read back.
class Collected final : public RowLinesSink {
 public:
  Status recording(std::string_view name, std::span<const std::string>, const std::vector<std::string>&) override {
    names.emplace_back(name);
    return {};
  }
  Status row(std::span<const Value> values) override {
    rows.emplace_back(values.begin(), values.end());
    return {};
  }
  std::vector<std::string> names;
  std::vector<std::vector<Value>> rows;
};

TEST(RowLines, ValuesSurvive) {
  const std::vector<Value> values{std::monostate{},
                                  INT64_MAX,
                                  INT64_MIN,
                                  0.1,
                                  5.0,
                                  -0.0,
                                  1e300,
                                  std::string("a\n\"\u202e"),
                                  Blob{std::string("\0\xff", 2)},
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(),
                                  std::string("{\"blob\":\"00\"}")};
  RowLines lines({});
  lines.begin_recording("a.db", {"n"}, {"1 a"});
  store::must(lines.columns(std::vector<std::string>(values.size(), "c")));
  EXPECT_TRUE(lines.row(values).value_or(false));
  Collected read;
  const auto truncated = read_row_lines(lines.take(), read);
  ASSERT_TRUE(truncated.has_value()) << truncated.error().what;
  EXPECT_FALSE(*truncated);
  ASSERT_EQ(read.rows.size(), 1U);
  EXPECT_EQ(read.rows[0], values);
  EXPECT_TRUE(std::signbit(std::get<double>(read.rows[0][5])));
}

TEST(RowLines, AnswersOfOtherForms) {
  constexpr std::string_view kHead = R"({"recording":"a","nodes":[],"columns":["x"]})"
                                     "\n";
  for (const std::string& wrong : std::initializer_list<std::string>{
           "", "\n", "[1]\n", "{}\n", "hello\n", std::string(kHead), std::string(kHead) + "[1]\n",
           std::string(kHead) + "[1,2]\n"
                                R"({"end":true,"rows":1,"truncated":false})"
                                "\n",
           std::string(kHead) + "[]\n"
                                R"({"end":true,"rows":1,"truncated":false})"
                                "\n",
           std::string(kHead) + "[true]\n"
                                R"({"end":true,"rows":1,"truncated":false})"
                                "\n",
           std::string(kHead) + "[[1]]\n"
                                R"({"end":true,"rows":1,"truncated":false})"
                                "\n",
           std::string(kHead) + R"([{"blob":"0"}])"
                                "\n"
                                R"({"end":true,"rows":1,"truncated":false})"
                                "\n",
           std::string(kHead) + "[1]\n"
                                R"({"end":true,"rows":2,"truncated":false})"
                                "\n",
           std::string(kHead) + "[1]\n"
                                R"({"end":true,"rows":1,"truncated":false})",
           std::string(kHead) + "[1]\n"
                                R"({"end":true,"rows":1,"truncated":false})"
                                "\n[1]\n",
           std::string(kHead) + R"({"end":true,"rows":0})"
                                "\n"}) {
    Collected read;
    EXPECT_FALSE(read_row_lines(wrong, read)) << wrong;
  }
}

TEST(HttpMessage, TokensAreComparedWhole) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const auto& [a, b] :
       {std::pair("abc", "abd"), {"abc", "ab"}, {"ab", "abc"}, {"", "a"}, {"a", ""}, {"aa", "a"}}) {
    EXPECT_FALSE(equal_in_constant_time(a, b)) << a << b;
  }
}

TEST(HttpMessage, NamesSurviveInATarget) {
  const std::string name = "/data/job 7/a&b=c%20+?#\xc3\xa4.db";
  HttpRequest request;
  ASSERT_TRUE(read_target("/v1/recording?recording=" + percent_encoded(name), request));
  EXPECT_EQ(request.query["recording"], name);
}

}  // namespace
}  // namespace stalltrace::serve
