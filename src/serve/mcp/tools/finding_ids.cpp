// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp/tools/finding_ids.h"

#include <fmt/format.h>

#include <map>

#include "base/hash.h"

namespace stalltrace::serve::mcp {
namespace {

std::string number_or_dash(const std::optional<int32_t>& number) { return number ? std::to_string(*number) : "-"; }

/// What the finding blames. Neither its times nor its cost: they change while the recording grows.
std::string identity_of(const Finding& finding) {
  std::string text =
      fmt::format("{} {} {} ", to_text(finding.cause), finding.attempt.value_or(0), finding.comm_id_hash);
  if (finding.culprit) {
    text += fmt::format("culprit {} {} {} ", finding.culprit->node, number_or_dash(finding.culprit->rank),
                        finding.culprit->pid);
  }
  if (finding.link) {
    text += fmt::format("link {} {}", number_or_dash(finding.link->src_rank), number_or_dash(finding.link->dst_rank));
  }
  return text;
}

}  // namespace

std::vector<std::string> finding_ids(const std::vector<Finding>& findings) {
  std::vector<std::string> ids;
  std::map<std::string, int> seen;
  for (const Finding& finding : findings) {
    std::string id =
        fmt::format("{}-{:08x}", to_text(finding.cause), static_cast<uint32_t>(splitmix64_text(identity_of(finding))));
    const int count = ++seen[id];
    ids.push_back(count > 1 ? fmt::format("{}-{}", id, count) : std::move(id));
  }
  return ids;
}

}  // namespace stalltrace::serve::mcp
