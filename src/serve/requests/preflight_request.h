// SPDX-License-Identifier: Apache-2.0
// What POST /v1/preflight asks a node to do, as JSON (docs/serve.md, docs/openapi.json): take part in tests of the
// network between nodes. Every number has limits, and no member is unknown, of another type or, but for a remedy, left
// out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::serve {

struct PreflightRequest {
  /// A node that can't take part, as the report is to show it.
  struct Missing {
    std::string node;
    std::string reason;
    std::string remedy = {};  // what to do about it; empty: an older version asks, which sends none
  };
  bool only_ready = false;  // answers whether it could take part, and starts nothing; the others are not set then
  int32_t rank = 0;         // rank 0 has the others test each other too, and answers with the report
  int32_t ranks = 0;
  std::string secret;                // of these tests alone
  std::vector<std::string> masters;  // numbers of rank 0's node
  uint16_t port = 0;                 // of rank 0, for the others
  int64_t wait_ms = 0;               // for the other ranks
  int64_t limit_ms = 0;              // for all; then the tests are ended
  int64_t rounds = 0;                // of pairs, at most
  int64_t test_ms = 0;               // of one flow, at most
  int64_t test_bytes = 0;
  int64_t max_mbit = 0;  // 0: as fast as TCP allows
  bool json = false;     // rank 0's report
  std::vector<std::string> nodes;
  std::vector<Missing> missing;
};

inline constexpr int64_t kMostPreflightNodes = 1024;
inline constexpr size_t kMostMissingNamed = 128;
inline constexpr size_t kLongestNodeName = 160;
inline constexpr size_t kLongestReason = 300;  // and its remedy
inline constexpr int64_t kLongestPreflightMs = 30 * 60 * 1000;
inline constexpr int64_t kLongestWaitMs = 10 * 60 * 1000;

std::string to_json(const PreflightRequest& request);
/// Errors (kUsage): not such an object, or beyond a limit; the error names the member.
Result<PreflightRequest> parse_preflight_request(std::string_view text);

}  // namespace stalltrace::serve
