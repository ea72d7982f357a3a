// SPDX-License-Identifier: Apache-2.0
// The two ways in which MCP agrees on a version. Until 2025-11-25 `initialize` opens a session. From 2026-07-28 there
// is no session: each request states its version in params._meta.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/mcp/message.h"

namespace stalltrace::serve::mcp {

inline constexpr std::string_view kModernVersion = "2026-07-28";
/// Where params._meta of a request has its version, from kModernVersion on.
inline constexpr std::string_view kVersionKey = "io.modelcontextprotocol/protocolVersion";
inline constexpr std::string_view kNewestLegacyVersion = "2025-11-25";
/// The only version in which several messages may be in one array.
inline constexpr std::string_view kBatchVersion = "2025-03-26";

/// Of one connection; of HTTP, one request's headers.
struct Session {
  std::optional<std::string> legacy_version;  // agreed on by `initialize`
};

enum class Era : uint8_t { kLegacy, kModern };

/// The era in which a request is answered. Errors: no version was agreed on, or stated; an unsupported one; no
/// capabilities of the client.
Answered<Era> era_of(const Message& message, const Session& session);

/// The version that a session gets for the one that the client asks for.
std::string_view legacy_version_for(std::string_view requested);

/// Adds what every result has in this era: resultType and the server's name.
Json complete(Json result, Era era);
/// Adds how long a client may keep the result: it is the same for every client, until the program ends.
void let_cache(Json& result, Era era);

/// {"name": "stalltrace", "version": ...}
Json server_info();

}  // namespace stalltrace::serve::mcp
