// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/shift/shift_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "lab/cluster/campaign/shift/moved_evidence.h"

namespace stalltrace::lab {
namespace {

using ShiftJson = nlohmann::ordered_json;

/// Each stall of these has packets of its own, however long the fault is in effect.
constexpr std::array<std::string_view, 2> kOneByOne = {"packet_loss", "host_drop"};

/// The count that a stall belongs to where evidence is moved.
int64_t CauseShift::*count_for(const JudgedStall& stall, const Judgement& moved, bool lasting, int64_t shift_ns) {
  if (stall.window.to_ns <= moved.range.from_ns + shift_ns) {
    return &CauseShift::out_of_reach;
  }
  return lasting || stall.window.length() >= shift_ns ? &CauseShift::apart : &CauseShift::judged;
}

void add_counts(const CauseShift& from, CauseShift& to) {
  to.stalls += from.stalls;
  to.findings += from.findings;
  to.judged += from.judged;
  to.apart += from.apart;
  to.out_of_reach += from.out_of_reach;
  to.moved_findings += from.moved_findings;
}

ShiftResult sum_of(std::span<const ShiftResult> results) {
  ShiftResult sum;
  for (const ShiftResult& result : results) {
    for (const auto& [cause, counts] : result.causes) {
      add_counts(counts, sum.causes[cause]);
    }
  }
  return sum;
}

std::string share_text(int64_t part, int64_t whole) {
  return whole == 0 ? "0 of 0"
                    : fmt::format("{} of {} ({:.2f} %)", part, whole,
                                  100 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace

bool is_from_evidence(Cause cause) {
  switch (cause) {
    case Cause::kLateRank:
    case Cause::kSlowDevice:
    case Cause::kDeadRank:
    case Cause::kMissingCollective:
    case Cause::kMismatchedCollective:
    case Cause::kInitFailure:
    case Cause::kUnknown:
      return false;
    default:
      return true;
  }
}

int64_t ShiftResult::all(int64_t CauseShift::*count) const {
  int64_t sum = 0;
  for (const auto& [cause, counts] : causes) {
    sum += counts.*count;
  }
  return sum;
}

int64_t ShiftResult::explained(int64_t CauseShift::*count) const {
  int64_t sum = 0;
  for (const auto& [cause, counts] : causes) {
    sum += is_from_evidence(cause) ? counts.*count : 0;
  }
  return sum;
}

bool lasts(const std::vector<TrueFault>& faults, int64_t shift_ns) {
  return std::ranges::any_of(faults, [&](const TrueFault& fault) {
    const bool one_by_one = std::ranges::find(kOneByOne, fault.cause) != kOneByOne.end();
    return !fault.harmless && !one_by_one && std::ranges::any_of(fault.intervals, [&](const TimeRange& interval) {
      return interval.length() + kTimeSlackNs > shift_ns;
    });
  });
}

Result<ShiftResult> shift_recording(EventSource& recording, const std::vector<TrueFault>& faults, int64_t shift_ns,
                                    const Judge& judge) {
  ShiftResult result;
  result.lasting = lasts(faults, shift_ns);
  ST_ASSIGN(const Judgement recorded, judge(recording));
  for (const JudgedStall& stall : recorded.stalls) {
    result.causes[stall.cause].stalls += 1;
  }
  for (const Cause cause : recorded.findings) {
    result.causes[cause].findings += 1;
  }
  MovedEvidence source(recording, shift_ns);
  ST_ASSIGN(const Judgement moved, judge(source));
  for (const JudgedStall& stall : moved.stalls) {
    result.causes[stall.cause].*count_for(stall, moved, result.lasting, shift_ns) += 1;
  }
  for (const Cause cause : moved.findings) {
    result.causes[cause].moved_findings += 1;
  }
  return result;
}

std::string shift_to_json_line(const ShiftResult& result, int64_t shift_ns) {
  ShiftJson causes = ShiftJson::array();
  for (const auto& [cause, counts] : result.causes) {
    causes.push_back({{"cause", to_text(cause)},
                      {"from_evidence", is_from_evidence(cause)},
                      {"stalls", counts.stalls},
                      {"judged", counts.judged},
                      {"apart", counts.apart},
                      {"out_of_reach", counts.out_of_reach},
                      {"findings", counts.findings},
                      {"moved_findings", counts.moved_findings}});
  }
  const ShiftJson json = {{"draw", result.draw},
                          {"setting", result.setting},
                          {"kind", to_text(result.kind)},
                          {"shift_ns", shift_ns},
                          {"lasting", result.lasting},
                          {"judged", result.all(&CauseShift::judged)},
                          {"explained_falsely", result.explained(&CauseShift::judged)},
                          {"problem", result.problem},
                          {"causes", causes}};
  return json.dump(-1, ' ', false, ShiftJson::error_handler_t::replace);
}

std::string shift_to_markdown(std::span<const ShiftResult> results, int64_t shift_ns) {
  const ShiftResult sum = sum_of(results);
  const auto judged = std::ranges::count_if(results, [](const ShiftResult& one) { return one.problem.empty(); });
  const auto lasting = std::ranges::count_if(results, [](const ShiftResult& one) { return one.lasting; });
  std::string text = fmt::format(
      "The evidence of {} moved by {}. Explained falsely: {} of the stalls that met evidence of another time; by the "
      "evidence in its place: {} of all stalls.\n\n",
      count_of(judged, "recorded job"), format_duration(shift_ns),
      share_text(sum.explained(&CauseShift::judged), sum.all(&CauseShift::judged)),
      share_text(sum.explained(&CauseShift::stalls), sum.all(&CauseShift::stalls)));
  text += fmt::format(
      "Apart, explained: {} of the stalls that last as long as that, or are of {} whose faults do. Before all moved "
      "evidence: {}.\n\n",
      share_text(sum.explained(&CauseShift::apart), sum.all(&CauseShift::apart)), count_of(lasting, "job"),
      count_of(sum.all(&CauseShift::out_of_reach), "stall"));
  text +=
      "| cause | from evidence | stalls, evidence in its place | stalls, evidence moved | apart | before all evidence "
      "| "
      "findings | findings, evidence moved |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const auto& [cause, counts] : sum.causes) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", to_text(cause),
                        is_from_evidence(cause) ? "yes" : "no", counts.stalls, counts.judged, counts.apart,
                        counts.out_of_reach, counts.findings, counts.moved_findings);
  }
  for (const ShiftResult& result : results) {
    if (!result.problem.empty()) {
      text += fmt::format("\nDraw {} was not judged: {}\n", result.draw, result.problem);
    }
  }
  return text;
}

}  // namespace stalltrace::lab
