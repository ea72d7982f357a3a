// SPDX-License-Identifier: Apache-2.0
// The shift test of a campaign: all its recordings that are still there, judged as recorded and with their evidence
// moved. Runs nothing and scores no draw again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/cluster/campaign/shift/shift_score.h"

namespace stalltrace::lab {

struct ShiftOptions {
  std::string out_dir;  // of the campaign
  std::string only;     // settings whose name contains it
  int64_t shift_ns = 0;
  std::function<void(const ShiftResult&)> done;  // after each draw; may be empty
};

/// Opens the recordings of one draw's nodes together.
using OpenRecordings = std::function<Result<std::unique_ptr<EventSource>>(const std::vector<std::string>&)>;

struct ShiftedCampaign {
  std::vector<ShiftResult> results;  // by number; a draw whose recordings can't be judged has a problem
  int64_t without_recordings = 0;    // draws of which none were kept
};

/// Reads draws.jsonl, and truth.json and node*.db of each draw's folder. Errors: no campaign there, or one without a
/// recording (kNotFound).
Result<ShiftedCampaign> shift_campaign(const ShiftOptions& options, const OpenRecordings& open, const Judge& judge);

}  // namespace stalltrace::lab
