// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/failed_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "analysis/causes/cause.h"

namespace stalltrace::analysis {
namespace {

bool failed_in(const Member& member, const TimeRange& judged) {
  return member.exit_ns && *member.exit_ns >= judged.from_ns && *member.exit_ns <= judged.to_ns &&
         failed_by_itself(member);
}

bool is_named(const Member& member, const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings, [&](const Finding& finding) {
    return finding.culprit && finding.culprit->pid == member.pid && finding.culprit->node == member.node;
  });
}

/// ", and raised ValueError in load_batch (data.py:212)"
std::string raised_text(const AnalysisContext& context, MemberIndex member) {
  const RaisedException* raised = context.raised.that_ended(context.cluster, member);
  return raised != nullptr ? ", and raised " + raised->brief() : "";
}

std::string afterwards_text(const AnalysisContext& context, const JobEnd& end) {
  return fmt::format("{} {}{}{}{}", context.cluster.describe(end.first()),
                     context.cluster.member(end.first()).how_it_ended(), raised_text(context, end.first()),
                     end.last ? ", after " + short_call_text(context, *end.last) : "",
                     end.others_waited ? "" : "; no recorded rank was inside a collective then");
}

}  // namespace

void note_failed_ranks(const AnalysisContext& context, Report& report) {
  std::vector<MemberIndex> noted;
  for (const JobEnd& end : context.ends.all()) {
    const Member& first = context.cluster.member(end.first());
    if (end.kind == JobEnd::Kind::kAfterwards && failed_in(first, report.judged_range) &&
        !is_named(first, report.findings)) {
      report.notes.push_back(afterwards_text(context, end));
      noted.push_back(end.first());
    }
  }
  std::vector<MemberIndex> others;
  for (size_t i = 0; report.findings.empty() && i < context.cluster.members().size(); ++i) {
    const auto member = static_cast<MemberIndex>(i);
    if (failed_in(context.cluster.member(member), report.judged_range) &&
        std::ranges::find(noted, member) == noted.end()) {
      others.push_back(member);
    }
  }
  const auto killed = [&](MemberIndex member) { return context.cluster.member(member).exit_signal == SIGKILL; };
  if (others.size() > 1 && std::ranges::all_of(others, killed)) {
    others.clear();  // the job was ended as a whole
  }
  if (!others.empty()) {
    const auto first = std::ranges::min_element(
        others, {}, [&](MemberIndex member) { return *context.cluster.member(member).exit_ns; });
    report.notes.push_back(
        fmt::format("{} {} failed ({}; the first process to end was that of {}, which {}): that one rank "
                    "left before the others' calls failed is not seen, so that none is named",
                    others.size(), others.size() == 1 ? "rank" : "ranks", names_of(context, others),
                    short_name(context.cluster, *first),
                    context.cluster.member(*first).how_it_ended() + raised_text(context, *first)));
  }
  report.failed_ranks = static_cast<int64_t>(noted.size() + others.size());
}

}  // namespace stalltrace::analysis
