// SPDX-License-Identifier: Apache-2.0
#include "model/finding.h"

#include <algorithm>
#include <array>

#include "model/enum_text.h"

namespace stalltrace {
namespace {

constexpr std::array kCauses{
#define STALLTRACE_NAME(enumerator, name) std::string_view(name),
    STALLTRACE_CAUSES(STALLTRACE_NAME)
#undef STALLTRACE_NAME
};
constexpr std::array<std::string_view, kSeverities.size()> kSeverityNames{"waiting", "low", "medium", "high",
                                                                          "critical"};

}  // namespace

std::string_view to_text(Cause cause) { return kCauses[static_cast<size_t>(cause)]; }
std::string_view to_text(Severity severity) { return kSeverityNames[static_cast<size_t>(severity)]; }

std::optional<Cause> cause_from_text(std::string_view text) { return value_with_text<Cause>(kCauses, text); }
std::optional<Severity> severity_from_text(std::string_view text) {
  return value_with_text<Severity>(kSeverityNames, text);
}

std::optional<bool> Report::health() const {
  const bool benchmark_failed = std::ranges::any_of(benchmarks, &BenchmarkSummary::failed);
  if (!findings.empty() || benchmark_failed) {
    return false;
  }
  const bool not_seen = !unrecorded_ranks.empty() || !unplaced_waits.empty() || !unseen_graphs.empty();
  const bool not_compared = like && like->comparable == 0;
  return judged == 0 || ends_unknown || not_seen || not_compared ? std::nullopt : std::optional(true);
}

}  // namespace stalltrace
