// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp/era.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/version.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr std::array<std::string_view, 4> kLegacyVersions{kNewestLegacyVersion, "2025-06-18", kBatchVersion,
                                                          "2024-11-05"};
constexpr std::string_view kCapabilitiesKey = "io.modelcontextprotocol/clientCapabilities";
constexpr std::string_view kServerKey = "io.modelcontextprotocol/serverInfo";
constexpr int64_t kKeepMs = 300'000;

}  // namespace

Answered<Era> era_of(const Message& message, const Session& session) {
  const Json* meta = message.params.find("_meta");
  const Json* version = meta == nullptr ? nullptr : meta->find(kVersionKey);
  if (version == nullptr) {
    if (session.legacy_version || message.method == "initialize" || message.method == "ping") {
      return Era::kLegacy;
    }
    return refuse(ErrorCode::kInvalidParams,
                  fmt::format("no protocol version: state {} in params._meta, or call initialize first", kVersionKey));
  }
  if (version->text() == nullptr) {
    return refuse(ErrorCode::kInvalidParams, fmt::format("{} is no text", kVersionKey));
  }
  if (*version->text() != kModernVersion) {
    return refuse(ErrorCode::kUnsupportedVersion, "this protocol version is not supported",
                  Json::object({{"supported", Json::array({kModernVersion})}, {"requested", *version}}));
  }
  const Json* capabilities = meta->find(kCapabilitiesKey);
  if (capabilities == nullptr || !capabilities->is_object()) {
    return refuse(ErrorCode::kInvalidParams, fmt::format("{} is missing in params._meta", kCapabilitiesKey));
  }
  return Era::kModern;
}

std::string_view legacy_version_for(std::string_view requested) {
  const auto* const known = std::ranges::find(kLegacyVersions, requested);
  return known == kLegacyVersions.end() ? kNewestLegacyVersion : *known;
}

Json server_info() {
  return Json::object({{"name", "stalltrace"}, {"title", "stalltrace"}, {"version", program_version()}});
}

Json complete(Json result, Era era) {
  if (era == Era::kModern) {
    result.set("resultType", "complete");
    result.set("_meta", Json::object({{std::string(kServerKey), server_info()}}));
  }
  return result;
}

void let_cache(Json& result, Era era) {
  if (era == Era::kModern) {
    result.set("ttlMs", kKeepMs);
    result.set("cacheScope", "public");
  }
}

}  // namespace stalltrace::serve::mcp
