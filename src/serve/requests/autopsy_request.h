// SPDX-License-Identifier: Apache-2.0
// What POST /v1/autopsy asks a node to do, as JSON (docs/serve.md, docs/openapi.json): look at the jobs that run there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace::serve {

/// All members have to be given, and no other one.
struct AutopsyRequest {
  int64_t seconds = 3;  // between the two snapshots
  bool trace = true;    // put probes on the job's calls in that time
  bool ras = true;      // ask NCCL's RAS of the jobs
};

inline constexpr int64_t kLongestAutopsySeconds = 60;

std::string to_json(const AutopsyRequest& request);
/// Errors (kUsage): not such an object, or beyond a limit; the error names the member.
Result<AutopsyRequest> parse_autopsy_request(std::string_view text);

}  // namespace stalltrace::serve
