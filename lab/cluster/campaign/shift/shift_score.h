// SPDX-License-Identifier: Apache-2.0
// The shift test of one recording: what its stalls are explained by, once as recorded and once with its evidence at
// another time. The share of stalls that moved evidence still explains is the rate of false explanations.
// docs/accuracy.md states the rules. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/cluster/campaign/draw.h"
#include "lab/cluster/campaign/score.h"
#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::lab {

/// One stall that an analysis examined, with the cause that it chose.
struct JudgedStall {
  Cause cause = Cause::kUnknown;  // also where it was dismissed as ordinary
  TimeRange window;               // when the job waited
};

/// What an analysis says of one recording.
struct Judgement {
  TimeRange range;  // of the recording, from the first arrival
  std::vector<JudgedStall> stalls;
  std::vector<Cause> findings;  // the cause of each
};
using Judge = std::function<Result<Judgement>(EventSource&)>;

/// Whether only rows other than calls and processes show that cause.
bool is_from_evidence(Cause cause);

/// Stalls and findings with one cause.
struct CauseShift {
  int64_t stalls = 0;    // where the evidence is in its place
  int64_t findings = 0;  // likewise
  // Where it is moved, stalls that ...
  int64_t judged = 0;          // meet evidence of another time: a cause from evidence is false
  int64_t apart = 0;           // may meet evidence of themselves, or of the same fault
  int64_t out_of_reach = 0;    // are before all evidence
  int64_t moved_findings = 0;  // findings
};

struct ShiftResult {
  int64_t draw = 0;
  std::string setting;
  DrawKind kind = DrawKind::kHealthy;
  std::string problem;   // why the recording was not judged; empty: it was
  bool lasting = false;  // its faults are: all its stalls are apart
  std::map<Cause, CauseShift> causes;

  /// Sums over all causes, or over those from evidence.
  [[nodiscard]] int64_t all(int64_t CauseShift::*count) const;
  [[nodiscard]] int64_t explained(int64_t CauseShift::*count) const;
};

/// Whether a fault was in effect without a break for longer than evidence is moved, which then meets it again; with
/// kTimeSlackNs for what it leaves behind. One that comes and goes does not last, and losses don't: each time, and each
/// stall, has evidence of its own. Harmless ones make no stall.
bool lasts(const std::vector<TrueFault>& faults, int64_t shift_ns);

/// Judges the recording twice. Draw, setting and kind are the caller's. Errors are those of `judge`.
Result<ShiftResult> shift_recording(EventSource& recording, const std::vector<TrueFault>& faults, int64_t shift_ns,
                                    const Judge& judge);

/// One line without its end, as in shift.jsonl. docs/lab.md.
std::string shift_to_json_line(const ShiftResult& result, int64_t shift_ns);

/// The rate, and a table by cause.
std::string shift_to_markdown(std::span<const ShiftResult> results, int64_t shift_ns);

}  // namespace stalltrace::lab
