// SPDX-License-Identifier: Apache-2.0
#include "model/finding.h"

#include <array>

#include "model/enum_text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, kCauseCount> kCauses{
    "packet_loss",   "slow_link",       "partition",     "mtu_blackhole",      "connection_reset",
    "slow_receiver", "host_drop",       "fabric_errors", "late_rank",          "cpu_contention",
    "disk_io",       "process_stopped", "dead_rank",     "missing_collective", "mismatched_collective",
    "init_failure",  "unknown"};
constexpr std::array<std::string_view, 4> kSeverities{"low", "medium", "high", "critical"};

}  // namespace

std::string_view to_text(Cause cause) { return kCauses[static_cast<size_t>(cause)]; }
std::string_view to_text(Severity severity) { return kSeverities[static_cast<size_t>(severity)]; }

std::optional<Cause> cause_from_text(std::string_view text) { return value_with_text<Cause>(kCauses, text); }
std::optional<Severity> severity_from_text(std::string_view text) {
  return value_with_text<Severity>(kSeverities, text);
}

}  // namespace stalltrace
