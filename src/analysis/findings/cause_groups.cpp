// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/cause_groups.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include "analysis/causes/host_counter_hints.h"
#include "analysis/causes/open_wait.h"
#include "analysis/causes/recorded_kinds.h"
#include "analysis/evidence/rhythm.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

using Groups = std::map<Cause, std::vector<CauseGroup>>;

Severity severity_of(const CauseGroup& group) {
  if (group.waiting || group.rare) {
    return Severity::kWaiting;
  }
  if (group.hung || group.wrong_data > 0) {
    return Severity::kCritical;
  }
  if (group.share >= kHighShare || group.longest_ns >= kHighStallNs) {
    return Severity::kHigh;
  }
  return group.share >= kMediumShare ? Severity::kMedium : Severity::kLow;
}

/// The time that a group's cost is related to: the group's span, but at least kShareSpanNs of the recording.
int64_t span_ns(const AnalysisContext& context, const CauseGroup& group) {
  const std::vector<Interval>& lost = group.lost.intervals();
  const int64_t own_ns = lost.empty() ? 0 : lost.back().to_ns - lost.front().from_ns;
  const int64_t judged_ns = context.judged.value_or(context.timeline.span()).length();
  return std::max({own_ns, std::min(judged_ns, kShareSpanNs), int64_t{1}});
}

bool passes(const CauseGroup& group, const Gate& gate) {
  return group.ended_job || group.wrong_data > 0 || group.longest_ns >= gate.single_ns ||
         (group.lost.total_ns() >= gate.total_ns && group.share >= gate.share);
}

/// True if `hypothesis`, of the same or a less direct rule, is chosen instead of `chosen`. A hypothesis that dismisses
/// a stall as ordinary never beats a cause.
bool beats(const Hypothesis& hypothesis, const Hypothesis& chosen) {
  if (hypothesis.dismissed != chosen.dismissed) {
    return chosen.dismissed;
  }
  const double margin = hypothesis.cause == chosen.cause ? 0 : kDirectnessMargin;
  return hypothesis.coverage > chosen.coverage + margin;
}

void sort_by_cost(std::vector<CauseGroup>& groups) {
  std::ranges::stable_sort(groups, std::greater{}, [](const CauseGroup& group) { return group.lost.total_ns(); });
}

void add(const Decision& decision, Groups& by_cause) {
  const Hypothesis& chosen = decision.hypotheses[decision.chosen];
  const CauseRule& rule = rule_of(chosen.cause);
  const Stall& stall = decision.stall;
  const bool ended_in_transfer = stall.ended_job() && stall.root().kind == HangKind::kTransfer;
  if (chosen.dismissed || (ended_in_transfer && !rule.ends_jobs)) {
    return;
  }
  std::vector<CauseGroup>& groups = by_cause[chosen.cause];
  auto group = std::ranges::find_if(
      groups, [&](const CauseGroup& other) { return other.location.key() == chosen.location.key(); });
  if (group == groups.end()) {
    groups.push_back({.cause = chosen.cause, .location = chosen.location});
    group = groups.end() - 1;
  }
  const bool again = stall.hung() && group->hung;  // all calls of one hang have the same evidence
  group->stalls.push_back(&stall);
  group->hung = group->hung || stall.hung() || stall.part() == StallPart::kAbsent;
  group->ended_job = group->ended_job || (stall.ended_job() && !rule.fallback);
  group->wrong_data += stall.wrong_data();
  group->coverage += chosen.coverage * static_cast<double>(stall.lost_ns);
  group->flows.insert(chosen.flows.begin(), chosen.flows.end());
  if (!again) {
    group->counters.merge(chosen.counters);
  }
}

/// The cost of a complete group.
void add_up(const AnalysisContext& context, CauseGroup& group) {
  count_cost(context, group);
  double weight = 0;
  for (const Stall* stall : group.stalls) {
    weight += static_cast<double>(stall->lost_ns);
  }
  group.coverage = weight > 0 ? group.coverage / weight : 0;
}

/// Compares each group with the more expensive ones of its cause.
void subsume_within(const AnalysisContext& context, const CauseRule& rule, std::vector<CauseGroup>& groups) {
  if (rule.subsumed_by == nullptr) {
    return;
  }
  sort_by_cost(groups);
  for (size_t by = 0; by < groups.size(); ++by) {
    for (size_t i = groups.size() - 1; i > by; --i) {
      const auto [kind, text] = rule.subsumed_by({.context = context, .group = groups[i], .by = groups[by]});
      switch (kind) {
        case Subsumption::Kind::kNone:
          continue;
        case Subsumption::Kind::kMerge:
          merge(groups[by], std::move(groups[i]));
          break;
        case Subsumption::Kind::kMergeCost: {
          EvidenceCounters counters = groups[by].counters;
          std::set<FlowIndex> flows = groups[by].flows;
          merge(groups[by], std::move(groups[i]));
          groups[by].counters = std::move(counters);
          groups[by].flows = std::move(flows);
          break;
        }
        case Subsumption::Kind::kMention:
          groups[by].mentions.push_back({"rule", groups[i].instances, text, {}});
          break;
        case Subsumption::Kind::kDrop:
          break;
      }
      groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

/// True if a group of another cause accounts for `group`.
bool is_subsumed(const AnalysisContext& context, const CauseRule& rule, const CauseGroup& group, int64_t explained_ns,
                 std::vector<CauseGroup>& groups) {
  for (CauseGroup& by : groups) {
    if (by.cause == group.cause) {
      continue;
    }
    Subsumption found = rule.subsumed_by({.context = context, .group = group, .by = by, .explained_ns = explained_ns});
    if (found.kind == Subsumption::Kind::kMention) {
      by.mentions.push_back({"rule", group.instances, std::move(found.text), {}});
    }
    if (found.kind != Subsumption::Kind::kNone) {
      return true;
    }
  }
  return false;
}

/// Compares each group with those of other causes, cause by cause with the fallback last. Only groups that are still
/// left count.
void subsume_across(const AnalysisContext& context, std::vector<CauseGroup>& groups) {
  for (const CauseRule& rule : cause_rules()) {
    if (rule.subsumed_by == nullptr) {
      continue;
    }
    int64_t explained_ns = 0;
    for (const CauseGroup& group : groups) {
      explained_ns += rule_of(group.cause).fallback ? 0 : group.lost.total_ns();
    }
    for (size_t i = 0; i < groups.size();) {
      if (groups[i].cause == rule.cause && is_subsumed(context, rule, groups[i], explained_ns, groups)) {
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
}

/// The groups that are findings, most expensive first. Adds the notes of the others.
std::vector<CauseGroup> select(const AnalysisContext& context, Groups& by_cause, std::vector<std::string>& notes) {
  std::vector<CauseGroup> selected;
  for (auto& [cause, groups] : by_cause) {
    const CauseRule& rule = rule_of(cause);
    for (CauseGroup& group : groups) {
      add_up(context, group);
    }
    std::erase_if(groups, [](const CauseGroup& group) { return group.lost.empty(); });
    if (rule.refine != nullptr) {
      rule.refine(context, groups);
    }
    for (CauseGroup& group : groups) {
      if (!group.note.empty()) {
        notes.push_back(std::move(group.note));
        group.stalls.clear();
      }
    }
    std::erase_if(groups, [](const CauseGroup& group) { return group.stalls.empty(); });
    subsume_within(context, rule, groups);
    for (CauseGroup& group : groups) {
      group.share = share_of(group.lost.total_ns(), span_ns(context, group));
      if (passes(group, rule.gate)) {
        group.waiting = group.hung && rule.may_end != nullptr && rule.may_end(context, group);
        selected.push_back(std::move(group));
      }
    }
  }
  sort_by_cost(selected);
  subsume_across(context, selected);
  return selected;
}

/// Of the communicator with most of the stalls, if it has nearly all: others have numbers of their own.
std::optional<Rhythm> rhythm_of(const AnalysisContext& context, const CauseGroup& group) {
  std::map<uint32_t, std::map<int64_t, RhythmStall>> by_group;
  for (const Stall* stall : group.stalls) {
    RhythmStall& one = by_group[stall->group][stall->number];
    one = {stall->number, stall->lost().from_ns, std::max(one.lost_ns, stall->lost_ns)};
  }
  const auto& [index, stalls] =
      *std::ranges::max_element(by_group, {}, [](const auto& entry) { return entry.second.size(); });
  if (group.hung || share_of(static_cast<int64_t>(stalls.size()), group.instances) < kRhythmShare) {
    return std::nullopt;
  }
  int64_t first = stalls.begin()->first;
  int64_t last = stalls.rbegin()->first;
  for (const uint32_t sequence : context.timeline.groups()[index].sequences) {
    const CallSequence& calls = context.timeline.sequences()[sequence];
    first = context.judged ? first : std::min(first, calls.first_number());  // what is not judged has no stalls
    last = context.judged ? last : std::max(last, calls.end_number() - 1);
  }
  std::vector<RhythmStall> in_order;
  for (const auto& [number, stall] : stalls) {
    in_order.push_back(stall);
  }
  return find_rhythm(in_order, first, last);
}

StallFinding finding_of(const AnalysisContext& context, CauseGroup& group) {
  const CauseRule& rule = rule_of(group.cause);
  StallFinding found{.finding = {.cause = group.cause, .severity = severity_of(group)}, .stalls = group.stalls};
  std::ranges::stable_sort(found.stalls, std::greater{}, [](const Stall* stall) { return stall->lost_ns; });
  found.unproven = group.waiting && group.longest_ns >= long_wait_ns(context, group);
  Finding& finding = found.finding;
  finding.confidence =
      rule.fallback ? kUnknownConfidence : std::min(kMaxConfidence, std::round(100 * group.coverage) / 100);
  if (group.location.culprit != kNoMember) {
    finding.culprit = culprit_of(context.cluster, group.location.culprit);
  } else if (group.location.node) {
    finding.culprit = Culprit{.node = context.cluster.node_name(*group.location.node), .rank = {}};
  }
  const Stall& longest = *found.stalls.front();
  finding.comm_id_hash = context.timeline.groups()[longest.group].hash;
  finding.op = context.timeline.signature(longest.signature).op;
  finding.collectives_affected = group.instances;
  finding.ended_job = ended_job(group);
  finding.stall_ms = static_cast<double>(group.lost.total_ns()) / static_cast<double>(kNsPerMs);
  finding.window = {group.lost.intervals().front().from_ns, group.lost.intervals().back().to_ns};
  for (const Stall* stall : group.stalls) {
    finding.lost.push_back({stall->lost().from_ns, stall->lost().to_ns});
  }
  std::ranges::sort(finding.lost, {}, &TimeRange::to_ns);
  finding.like = times_by_reference(group);
  finding.evidence.push_back(stall_evidence(context, group));
  rule.describe(context, group, finding);
  if (const auto rhythm = rhythm_of(context, group)) {
    finding.evidence.push_back({"rhythm", group.instances, rhythm_text(*rhythm), {}});
  }
  std::ranges::move(host_counter_evidence(context, group), std::back_inserter(finding.evidence));
  std::ranges::move(group.mentions, std::back_inserter(finding.evidence));
  return found;
}

}  // namespace

Decision decide(const AnalysisContext& all, Stall judged) {
  Decision decision{.stall = std::move(judged)};
  const Stall& stall = decision.stall;
  AnalysisContext context = all;
  context.attempt = all.timeline.groups()[stall.group].attempt;
  bool found = false;
  const auto claims = [&](const CauseRule& rule) { return rule.only_for != nullptr && rule.only_for(stall); };
  const bool claimed = std::ranges::any_of(cause_rules(), claims);
  for (const CauseRule& rule : cause_rules()) {
    if (rule.fallback ? found : claimed && !claims(rule)) {  // the fallback also where those that claim it step back
      continue;
    }
    const size_t first = decision.hypotheses.size();
    rule.judge(context, stall, decision.hypotheses);
    distrust_absence(context, stall, rule.needs_absence_of, std::span(decision.hypotheses).subspan(first));
    for (size_t i = first; i < decision.hypotheses.size(); ++i) {
      const Hypothesis& hypothesis = decision.hypotheses[i];
      if (!hypothesis.applies) {
        continue;
      }
      if (!found || beats(hypothesis, decision.hypotheses[decision.chosen])) {
        decision.chosen = i;
        found = true;
      }
    }
  }
  return decision;
}

std::vector<StallFinding> group_by_cause(const AnalysisContext& all, const std::vector<Decision>& decisions,
                                         std::vector<std::string>& notes) {
  std::map<AttemptIndex, Groups> attempts;
  for (const Decision& decision : decisions) {
    add(decision, attempts[all.timeline.groups()[decision.stall.group].attempt]);
  }
  std::vector<StallFinding> findings;
  for (auto& [attempt, by_cause] : attempts) {
    AnalysisContext context = all;
    context.attempt = attempt;
    for (CauseGroup& group : select(context, by_cause, notes)) {
      findings.push_back(finding_of(context, group));
      findings.back().finding.attempt = attempt + int64_t{1};
    }
  }
  std::ranges::stable_sort(findings, std::greater{}, [](const StallFinding& found) { return found.finding.stall_ms; });
  std::stable_partition(findings.begin(), findings.end(),
                        [](const StallFinding& found) { return found.finding.ended_job; });
  return findings;
}

void note_findings(const std::vector<StallFinding>& findings, size_t before, std::vector<Decision>& decisions) {
  std::map<const Stall*, size_t> finding_of_stall;
  for (size_t i = 0; i < findings.size(); ++i) {
    for (const Stall* stall : findings[i].stalls) {
      finding_of_stall[stall] = before + i;
    }
  }
  for (Decision& decision : decisions) {
    const auto found = finding_of_stall.find(&decision.stall);
    decision.finding = found == finding_of_stall.end() ? std::nullopt : std::optional(found->second);
  }
}

}  // namespace stalltrace::analysis
