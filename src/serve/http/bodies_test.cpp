// SPDX-License-Identifier: Apache-2.0
// The bodies of requests beside docs/openapi.json.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "serve/http/api.h"
#include "serve/testing/http_api.h"
#include "tests/support/source_tree.h"

namespace stalltrace::serve {
namespace {

using testing::ElementsAre;

std::vector<std::string> names_of(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, member] : *object.members()) {
    names.push_back(name);
  }
  return names;
}

std::vector<std::string> texts_of(const Json& array) {
  std::vector<std::string> texts;
  for (const Json& text : *array.values()) {
    texts.push_back(*text.text());
  }
  return texts;
}

Json with(Json object, const std::string& name, Json member) {
  object.set(name, std::move(member));
  return object;
}

Json without(const Json& object, const std::string& name) {
  Json rest = Json::object();
  for (const auto& [kept, member] : *object.members()) {
    if (kept != name) {
      rest.set(kept, member);
    }
  }
  return rest;
}

/// That of an object `takes` accepts the members that `described` has, and no others unless it allows them. `whole` has
/// all of them; none of `needed` can be left out.
void expect_members(const Json& described, const Json& whole, const std::vector<std::string>& needed,
                    const std::function<bool(const Json&)>& takes) {
  EXPECT_THAT(names_of(whole), testing::UnorderedElementsAreArray(names_of(at(described, "properties"))));
  EXPECT_TRUE(takes(whole)) << whole.dump();
  for (const std::string& name : names_of(whole)) {
    EXPECT_EQ(takes(without(whole, name)), std::ranges::find(needed, name) == needed.end()) << name;
  }
  const Json* others = described.find("additionalProperties");
  EXPECT_EQ(takes(with(whole, "another", 1)), others == nullptr) << "the description has no other value than false";
}

/// The bodies of requests are what docs/openapi.json describes.
class HttpBodies : public HttpApi {
 protected:
  HttpBodies() {
    accepted_ = store::must(AcceptedFolder::open(folder_ / "accepted", {}));
    ApiOptions all = options();
    all.preflight = [](const PreflightRequest&) { return HttpAnswer{.body = "{}"}; };
    all.autopsy = [](const AutopsyRequest&) { return HttpAnswer{.body = "{}"}; };
    all.accepted = accepted_.get();
    api_ = std::make_unique<Api>(*recordings_, all);
    const auto file = read_file(source_path("docs/openapi.json"));
    EXPECT_TRUE(file.has_value());
    description_ = json(file.value_or("{}"));
  }

  bool takes(const std::string& path, const std::string& body) {
    HttpRequest request{.method = "POST", .body = body};
    EXPECT_TRUE(read_target(path + "?recording=a.db", request));
    const int status = api_->answer(request).status;
    EXPECT_TRUE(status == 200 || (status >= 400 && status < 500)) << status << " " << path << " " << body;
    return status == 200;
  }
  std::function<bool(const Json&)> taker(const std::string& path) {
    return [this, path](const Json& body) { return takes(path, body.dump()); };
  }
  /// The schema of what is sent to the path.
  [[nodiscard]] Json described(const std::string& path) const {
    const Json content = at(description_, "paths." + path + ".post.requestBody.content");
    const Json schema = at((*content.members())[0].second, "schema");
    const Json* reference = schema.find("$ref");
    return reference == nullptr
               ? schema
               : at(description_, "components.schemas." + reference->text()->substr(reference->text()->rfind('/') + 1));
  }

  std::unique_ptr<AcceptedFolder> accepted_;
  Json description_;
};

/// Each with members is in one of the tests below.
TEST_F(HttpBodies, AreNeededWhereTheyAreDescribed) {
  std::vector<std::string> with_members;
  const Json paths = at(description_, "paths");
  for (const auto& [path, operations] : *paths.members()) {
    if (operations.find("post") != nullptr) {
      EXPECT_EQ(at(operations, "post.requestBody.required"), Json(true)) << path;
      EXPECT_FALSE(takes(path, "")) << path;
      if (described(path).find("properties") != nullptr) {
        with_members.push_back(path);
      }
    }
  }
  EXPECT_THAT(with_members, ElementsAre("/v1/findings", "/v1/rows", "/v1/preflight", "/v1/autopsy"));
}

TEST_F(HttpBodies, OfRowsHaveTheMembersThatAreDescribed) {
  const Json schema = described("/v1/rows");
  const auto takes_body = taker("/v1/rows");
  const Json read = json(R"({"table":"collective","from_ns":0,"to_ns":1,"narrow":true,"after":[7]})");
  const Json whole = Json::object({{"reads", Json::array({read})},
                                   {"windows", Json::array({Json::array({1, 2})})},
                                   {"clocks", Json::array({Json::array({1, 0})})}});
  expect_members(schema, whole, texts_of(at(schema, "required")), takes_body);
  const Json of_read = at(schema, "properties.reads.items");
  expect_members(of_read, read, texts_of(at(of_read, "required")),
                 [&](const Json& other) { return takes_body(with(whole, "reads", Json::array({other}))); });
}

TEST_F(HttpBodies, OfFindingsHaveTheMembersThatAreDescribed) {
  const Json schema = described("/v1/findings");
  const Json whole = json(
      R"({"schema":1,"node":"a","started_ns":5,"time_ns":6,"number":1,"news":"began","explained_by":null,"finding":{}})");
  expect_members(schema, whole, texts_of(at(schema, "required")), taker("/v1/findings"));
}

/// What rank 0 is asked for; the others get fewer members.
Json tests_of_rank_0() {
  return json(to_json(PreflightRequest{.rank = 0,
                                       .ranks = 2,
                                       .secret = std::string(64, 'a'),
                                       .masters = {"10.0.0.1"},
                                       .port = 7702,
                                       .wait_ms = 1,
                                       .limit_ms = 1,
                                       .rounds = 1,
                                       .test_ms = 1,
                                       .test_bytes = 1,
                                       .nodes = {"a", "b"},
                                       .missing = {{.node = "c", .reason = "down", .remedy = "start it"}}}));
}

TEST_F(HttpBodies, OfPreflightHaveTheMembersThatAreDescribed) {
  const Json schema = described("/v1/preflight");
  const Json properties = at(schema, "properties");
  const Json whole = tests_of_rank_0();
  const auto takes_body = taker("/v1/preflight");
  expect_members(schema, whole, names_of(properties), takes_body);
  const Json of_missing = at(schema, "properties.missing.items");
  expect_members(of_missing, at(whole, "missing.0"), texts_of(at(of_missing, "required")),
                 [&](const Json& other) { return takes_body(with(whole, "missing", Json::array({other}))); });
  const Json ready = Json::object({{"ask", "ready"}});
  EXPECT_THAT(texts_of(at(schema, "required")), ElementsAre("ask"));
  EXPECT_TRUE(takes_body(ready));
  Json of_rank_1 = with(whole, "rank", 1);
  std::vector<std::string> of_rank_0_alone;
  for (const auto& [name, member] : *properties.members()) {
    EXPECT_FALSE(name != "ask" && takes_body(with(ready, name, at(whole, name)))) << name;
    const Json* text = member.find("description");
    if (text != nullptr && text->text()->starts_with("rank 0 alone")) {
      of_rank_1 = without(of_rank_1, name);
      of_rank_0_alone.push_back(name);
    }
  }
  EXPECT_TRUE(takes_body(of_rank_1));
  for (const std::string& name : of_rank_0_alone) {
    EXPECT_FALSE(takes_body(with(of_rank_1, name, at(whole, name)))) << name;
  }
}

TEST_F(HttpBodies, OfAutopsyHaveTheMembersAndLimitsThatAreDescribed) {
  const Json schema = described("/v1/autopsy");
  const Json whole = json(to_json(AutopsyRequest{}));
  const auto takes_body = taker("/v1/autopsy");
  expect_members(schema, whole, texts_of(at(schema, "required")), takes_body);
  const Json seconds = at(schema, "properties.seconds");
  EXPECT_TRUE(takes_body(with(whole, "seconds", at(seconds, "minimum"))));
  EXPECT_TRUE(takes_body(with(whole, "seconds", at(seconds, "maximum"))));
  EXPECT_FALSE(takes_body(with(whole, "seconds", *at(seconds, "minimum").integer() - 1)));
  EXPECT_FALSE(takes_body(with(whole, "seconds", *at(seconds, "maximum").integer() + 1)));
}

TEST_F(HttpBodies, OfPreflightHaveTheLimitsThatAreDescribed) {
  const Json whole = tests_of_rank_0();
  const auto takes_body = taker("/v1/preflight");
  const Json properties = at(described("/v1/preflight"), "properties");
  for (const auto& [name, member] : *properties.members()) {
    const Json* least = member.find("minimum");
    const Json* most = member.find("maximum");
    if (least == nullptr || most == nullptr || name == "ranks") {  // there are as many nodes as ranks
      continue;
    }
    EXPECT_TRUE(takes_body(with(whole, name, *least))) << name;
    EXPECT_TRUE(takes_body(with(whole, name, *most))) << name;
    EXPECT_FALSE(takes_body(with(whole, name, *least->integer() - 1))) << name;
    EXPECT_FALSE(takes_body(with(whole, name, *most->integer() + 1))) << name;
  }
}

}  // namespace
}  // namespace stalltrace::serve
