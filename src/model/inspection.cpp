// SPDX-License-Identifier: Apache-2.0
#include "model/inspection.h"

namespace stalltrace {

std::string_view to_text(VerdictReason reason) {
  switch (reason) {
    case VerdictReason::kTooLong:
      return "too_long";
    case VerdictReason::kHang:
      return "hang";
    case VerdictReason::kEndedJob:
      return "ended_job";
    case VerdictReason::kWrongData:
      return "wrong_data";
    case VerdictReason::kBelowLimit:
      return "below_limit";
    case VerdictReason::kNoBaseline:
      return "no_baseline";
    case VerdictReason::kWarmingUp:
      return "warming_up";
    case VerdictReason::kPairUsual:
      return "pair_usual";
    case VerdictReason::kClockUncertain:
      return "clock_uncertain";
    case VerdictReason::kNoRankWaited:
      return "nobody_waited";
    case VerdictReason::kInBatch:
      return "in_batch";
    case VerdictReason::kStepAsUsual:
      return "step_as_usual";
    case VerdictReason::kStepUnknown:
      return "step_unknown";
    case VerdictReason::kInPreviousCall:
      return "in_previous_call";
    case VerdictReason::kWaitedForLateRank:
      return "waited_for_late_rank";
    case VerdictReason::kMayStillCome:
      return "may_still_come";
    case VerdictReason::kStillLaunching:
      return "still_launching";
    case VerdictReason::kHeldUpElsewhere:
      return "held_up_elsewhere";
    case VerdictReason::kOthersWentOn:
      return "others_went_on";
    case VerdictReason::kEndUnknown:
      return "end_unknown";
    case VerdictReason::kOutsideRange:
      return "outside_range";
    case VerdictReason::kLeftOut:
      return "left_out";
  }
  return "";
}

}  // namespace stalltrace
