// SPDX-License-Identifier: Apache-2.0
// One draw and its result, as a line of draws.jsonl: an interrupted campaign continues from those lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/cluster/campaign/draw.h"
#include "lab/cluster/campaign/score.h"

namespace stalltrace::lab {

struct DrawResult {
  Draw draw;
  DrawScore score;
  std::string problem;  // why the run failed, of a draw that is wrong or job_failed by that; empty otherwise
  double seconds = 0;   // time of the run and its explanation
  std::string program;  // which program ran and explained it: its version and SHA-256; empty: not known
};

/// One line, without its end. docs/lab.md.
std::string to_json_line(const DrawResult& result);
/// ErrorKind::kCorrupt when it is not such a line, kUnsupported when it was scored by other rules than these.
Result<DrawResult> draw_result_from_json(std::string_view line);
/// What was drawn, by whatever rules it was scored. ErrorKind::kCorrupt when it is not such a line.
Result<Draw> draw_from_json(std::string_view line);

}  // namespace stalltrace::lab
