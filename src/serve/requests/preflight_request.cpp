// SPDX-License-Identifier: Apache-2.0
#include "serve/requests/preflight_request.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "serve/json/json.h"
#include "serve/requests/request_members.h"

namespace stalltrace::serve {
namespace {

constexpr size_t kSecretDigits = 64;
constexpr size_t kMostAddresses = 16;

bool is_address(const std::string& number) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, number.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, number.c_str(), bytes.data()) == 1;
}

bool is_secret_text(const std::string& text) {
  return text.size() == kSecretDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string to_json(const PreflightRequest& request) {
  if (request.only_ready) {
    return Json::object({{"ask", "ready"}}).dump();
  }
  Json masters = Json::array();
  for (const std::string& number : request.masters) {
    masters.push_back(number);
  }
  Json all = Json::object({{"ask", "tests"},
                           {"rank", request.rank},
                           {"ranks", request.ranks},
                           {"secret", request.secret},
                           {"masters", std::move(masters)},
                           {"port", request.port},
                           {"wait_ms", request.wait_ms},
                           {"limit_ms", request.limit_ms},
                           {"rounds", request.rounds},
                           {"test_ms", request.test_ms},
                           {"test_bytes", request.test_bytes},
                           {"max_mbit", request.max_mbit}});
  if (request.rank == 0) {
    Json nodes = Json::array();
    for (const std::string& node : request.nodes) {
      nodes.push_back(node);
    }
    Json missing = Json::array();
    for (const PreflightRequest::Missing& one : request.missing) {
      Json row = Json::object({{"node", one.node}, {"reason", one.reason}});
      if (!one.remedy.empty()) {
        row.set("remedy", one.remedy);
      }
      missing.push_back(std::move(row));
    }
    all.set("format", request.json ? "json" : "text");
    all.set("nodes", std::move(nodes));
    all.set("missing", std::move(missing));
  }
  return all.dump();
}

Result<PreflightRequest> parse_preflight_request(std::string_view text) {
  ST_ASSIGN(const Json json, request_object(text, {.depth = 4, .values = 4096, .members = 24}));
  RequestMembers members(json);
  PreflightRequest request;
  const std::string ask = members.text("ask", 16);
  request.only_ready = ask == "ready";
  if (request.only_ready) {
    ST_TRY(members.status());
    return request;
  }
  if (ask != "tests") {
    return no_valid_member("ask");
  }
  request.ranks = static_cast<int32_t>(members.number("ranks", 1, kMostPreflightNodes));
  request.rank = static_cast<int32_t>(members.number("rank", 0, request.ranks - 1));
  request.secret = members.text("secret", kSecretDigits);
  if (!is_secret_text(request.secret)) {
    members.refuse("secret");
  }
  for (const Json& one : members.array("masters", 1, kMostAddresses)) {
    request.masters.push_back(members.text_of(one, "masters", INET6_ADDRSTRLEN));
    if (!is_address(request.masters.back())) {
      members.refuse("masters");
    }
  }
  request.port = static_cast<uint16_t>(members.number("port", 1, UINT16_MAX));
  request.wait_ms = members.number("wait_ms", 1, kLongestWaitMs);
  request.limit_ms = members.number("limit_ms", 1, kLongestPreflightMs);
  request.rounds = members.number("rounds", 1, kMostPreflightNodes);
  request.test_ms = members.number("test_ms", 1, 60'000);
  request.test_bytes = members.number("test_bytes", 1, int64_t{1} << 40);
  request.max_mbit = members.number("max_mbit", 0, 1'000'000);
  if (request.rank == 0) {
    const std::string format = members.text("format", 8);
    request.json = format == "json";
    if (!request.json && format != "text") {
      members.refuse("format");
    }
    const auto ranks = static_cast<size_t>(request.ranks);
    for (const Json& one : members.array("nodes", ranks, ranks)) {
      request.nodes.push_back(members.text_of(one, "nodes", kLongestNodeName));
    }
    for (const Json& one : members.array("missing", 0, kMostMissingNamed)) {
      const Json* node = one.find("node");
      const Json* reason = one.find("reason");
      const Json* remedy = one.find("remedy");
      if (node == nullptr || reason == nullptr || one.size() != (remedy == nullptr ? 2U : 3U)) {
        members.refuse("missing");
        break;
      }
      request.missing.push_back(
          {.node = members.text_of(*node, "missing", kLongestNodeName),
           .reason = members.text_of(*reason, "missing", kLongestReason),
           .remedy = remedy == nullptr ? "" : members.text_of(*remedy, "missing", kLongestReason)});
    }
  }
  ST_TRY(members.status());
  return request;
}

}  // namespace stalltrace::serve
