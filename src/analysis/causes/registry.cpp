// SPDX-License-Identifier: Apache-2.0
// The table of causes. Each rule is defined in its cause's file.
#include <array>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {

extern const CauseRule kCongestionRule, kConnectionResetRule, kCpuContentionRule, kDeadRankRule, kDiskIoRule,
    kFabricErrorsRule, kHostDropRule, kLateRankRule, kMismatchedCollectiveRule, kMissingCollectiveRule,
    kMtuBlackholeRule, kPacketLossRule, kPartitionRule, kProcessStoppedRule, kSlowDeviceRule, kSlowLinkRule,
    kSlowReceiverRule, kUnknownRule;

std::span<const CauseRule> cause_rules() {
  static const std::array kRules{
      kProcessStoppedRule, kConnectionResetRule,   kDeadRankRule, kMismatchedCollectiveRule, kMtuBlackholeRule,
      kPartitionRule,      kFabricErrorsRule,      kHostDropRule, kPacketLossRule,           kCpuContentionRule,
      kDiskIoRule,         kMissingCollectiveRule, kLateRankRule, kSlowDeviceRule,           kSlowReceiverRule,
      kCongestionRule,     kSlowLinkRule,          kUnknownRule};
  return kRules;
}

const CauseRule& rule_of(Cause cause) {
  for (const CauseRule& rule : cause_rules()) {
    if (rule.cause == cause) {
      return rule;
    }
  }
  return cause_rules().back();
}

}  // namespace stalltrace::analysis
