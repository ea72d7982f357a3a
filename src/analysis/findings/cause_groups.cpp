// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/cause_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "analysis/causes/host_counter_hints.h"
#include "analysis/causes/recorded_kinds.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// A rule that is less direct must cover this much more to be said instead.
constexpr double kDirectnessMargin = 0.15;
constexpr double kHighShare = 0.2;
constexpr double kMediumShare = 0.05;
constexpr double kMaxConfidence = 0.99;
constexpr double kUnknownConfidence = 0.3;

Severity severity_of(const CauseGroup& group) {
  if (group.hung || group.wrong_data > 0) {
    return Severity::kCritical;
  }
  if (group.share >= kHighShare || group.longest_ns >= kNsPerSecond) {
    return Severity::kHigh;
  }
  return group.share >= kMediumShare ? Severity::kMedium : Severity::kLow;
}

/// The time a group's cost is set against: what it spans, but not less than kShareSpanNs of the recording.
int64_t span_ns(const AnalysisContext& context, const CauseGroup& group) {
  const std::vector<Interval>& lost = group.lost.intervals();
  const int64_t own_ns = lost.empty() ? 0 : lost.back().to_ns - lost.front().from_ns;
  return std::max({own_ns, std::min(context.timeline.span().length(), kShareSpanNs), int64_t{1}});
}

bool dear_enough(const CauseGroup& group, const Gate& gate) {
  return group.ended_job || group.wrong_data > 0 || group.longest_ns >= gate.single_ns ||
         (group.lost.total_ns() >= gate.total_ns && group.share >= gate.share);
}

/// True when `opinion`, of the same or a less direct rule, is to be said instead of `chosen`. What dismisses a stall
/// as ordinary never beats a cause.
bool beats(const Hypothesis& hypothesis, const Hypothesis& chosen) {
  if (hypothesis.dismissed != chosen.dismissed) {
    return chosen.dismissed;
  }
  const double margin = hypothesis.cause == chosen.cause ? 0 : kDirectnessMargin;
  return hypothesis.coverage > chosen.coverage + margin;
}

std::string address_of(const std::optional<Endpoint>& end) { return end ? end->address : "?"; }

/// Groups of one cause while they are being put together.
class Folding {
 public:
  explicit Folding(const AnalysisContext& context) : context_(context) {}

  void add(const Decision& decision) {
    const Hypothesis& chosen = decision.hypotheses[decision.chosen];
    const bool breaks = decision.stall.ended_job() && decision.stall.root().kind == HangKind::kTransfer;
    if (chosen.dismissed || (breaks && !rule_of(chosen.cause).ends_jobs)) {
      return;
    }
    std::vector<CauseGroup>& groups = by_cause_[chosen.cause];
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const CauseGroup& other) { return other.place.key() == chosen.place.key(); });
    if (group == groups.end()) {
      groups.push_back({.cause = chosen.cause, .place = chosen.place});
      group = groups.end() - 1;
    }
    const bool again = decision.stall.hung() && group->hung;  // the calls of one hang: one evidence
    group->stalls.push_back(&decision.stall);
    group->longest_ns = std::max(group->longest_ns, decision.stall.lost_ns);
    group->hung = group->hung || decision.stall.hung() || decision.stall.part() == StallPart::kAbsent;
    group->ended_job = group->ended_job || (decision.stall.ended_job() && chosen.cause != Cause::kUnknown);
    group->wrong_data += chosen.cause == Cause::kMismatchedCollective ? decision.stall.wrong_data() : 0;
    group->coverage += chosen.coverage * static_cast<double>(decision.stall.lost_ns);
    if (!again) {
      merge(group->counters, chosen.counters);
    }
  }

  std::vector<Finding> finish() {
    std::vector<Finding> findings;
    for (auto& [cause, groups] : by_cause_) {
      const CauseRule& rule = rule_of(cause);
      for (CauseGroup& group : groups) {
        close(group);
      }
      if (rule.refine != nullptr) {
        rule.refine(context_, groups);
      }
      for (CauseGroup& group : groups) {
        group.share = share_of(group.lost.total_ns(), span_ns(context_, group));
        if (dear_enough(group, rule.gate)) {
          findings.push_back(finding_of(group, rule));
        }
      }
    }
    std::stable_sort(findings.begin(), findings.end(),
                     [](const Finding& a, const Finding& b) { return a.stall_ms > b.stall_ms; });
    fold_aftermath(findings);
    fold_residue(findings);
    return findings;
  }

 private:
  static void close(CauseGroup& group) {
    std::vector<Interval> lost;
    std::set<std::pair<uint32_t, int64_t>> instances;
    double weight = 0;
    for (const Stall* stall : group.stalls) {
      lost.push_back(stall->lost());
      instances.insert({stall->group, stall->column});
      weight += static_cast<double>(stall->lost_ns);
    }
    group.lost = IntervalSet(std::move(lost));
    group.instances = std::max(static_cast<int64_t>(instances.size()), group.wrong_data);
    group.coverage = weight > 0 ? group.coverage / weight : 0;
  }

  /// A fault leaves stalls whose evidence falls short of the rule. While they are few beside what is explained, or
  /// point to a rank that is explained, they are told with the dearest finding instead of as a riddle of their own.
  static void fold_residue(std::vector<Finding>& findings) {
    double explained_ms = 0;
    for (const Finding& finding : findings) {
      explained_ms += finding.cause == Cause::kUnknown ? 0 : finding.stall_ms;
    }
    const auto is_residue = [&](const Finding& finding) {
      return finding.cause == Cause::kUnknown &&
             (finding.stall_ms < kResidueShare * explained_ms || same_culprit_explained(findings, finding));
    };
    std::vector<Evidence> told;
    for (const Finding& finding : findings) {
      if (is_residue(finding)) {
        told.push_back({.kind = "rule",
                        .count = finding.collectives_affected,
                        .text = fmt::format("{} more in {} collectives: the evidence does not suffice to say why",
                                            format_duration(static_cast<int64_t>(finding.stall_ms * kNsPerMs)),
                                            finding.collectives_affected)});
      }
    }
    if (told.empty()) {
      return;
    }
    std::vector<Finding> rest;
    std::copy_if(findings.begin(), findings.end(), std::back_inserter(rest),
                 [&](const Finding& finding) { return !is_residue(finding); });
    rest.front().evidence.insert(rest.front().evidence.end(), told.begin(), told.end());
    findings = std::move(rest);
  }

  /// A link that lost packets sends less for a while, by its congestion window: where it is slow without loss then, and
  /// that cost less, it is told with the loss.
  static void fold_aftermath(std::vector<Finding>& findings) {
    std::vector<bool> drop(findings.size());
    for (size_t i = 0; i < findings.size(); ++i) {
      const auto loss = std::find_if(findings.begin(), findings.end(), [&](const Finding& other) {
        return findings[i].cause == Cause::kSlowLink && is_loss_of(other, findings[i]);
      });
      if (loss != findings.end()) {
        drop[i] = true;
        loss->evidence.push_back(
            {.kind = "rule",
             .count = findings[i].collectives_affected,
             .text = fmt::format("{} more in {} collectives: there, the link from {} to {} was slow between losses",
                                 format_duration(static_cast<int64_t>(findings[i].stall_ms * kNsPerMs)),
                                 findings[i].collectives_affected, address_of(findings[i].link->src),
                                 address_of(findings[i].link->dst))});
      }
    }
    size_t index = 0;
    std::erase_if(findings, [&](const Finding&) { return drop[index++]; });
  }

  static bool is_loss_of(const Finding& loss, const Finding& slow) {
    if ((loss.cause != Cause::kPacketLoss && loss.cause != Cause::kHostDrop) || !slow.link ||
        loss.stall_ms < slow.stall_ms) {
      return false;
    }
    const bool same_link = loss.link && address_of(loss.link->src) == address_of(slow.link->src) &&
                           address_of(loss.link->dst) == address_of(slow.link->dst);
    const bool same_end = loss.culprit && loss.culprit->rank &&
                          (loss.culprit->rank == slow.link->src_rank || loss.culprit->rank == slow.link->dst_rank);
    return same_link || same_end;
  }

  static bool same_culprit_explained(const std::vector<Finding>& findings, const Finding& unknown) {
    return unknown.culprit && std::any_of(findings.begin(), findings.end(), [&](const Finding& other) {
             return other.cause != Cause::kUnknown && other.culprit && other.culprit->node == unknown.culprit->node &&
                    other.culprit->pid == unknown.culprit->pid;
           });
  }

  Finding finding_of(const CauseGroup& group, const CauseRule& rule) const {
    Finding finding{.cause = group.cause, .severity = severity_of(group)};
    const bool known = group.cause != Cause::kUnknown;
    finding.confidence = known ? std::min(kMaxConfidence, std::round(100 * group.coverage) / 100) : kUnknownConfidence;
    if (group.place.culprit != kNoMember) {
      finding.culprit = culprit_of(context_.cluster, group.place.culprit);
    }
    const Stall& longest = **std::max_element(group.stalls.begin(), group.stalls.end(),
                                              [](const Stall* a, const Stall* b) { return a->lost_ns < b->lost_ns; });
    finding.comm_id_hash = context_.timeline.groups()[longest.group].hash;
    finding.op = context_.timeline.signature(longest.signature).op;
    finding.collectives_affected = group.instances;
    finding.stall_ms = static_cast<double>(group.lost.total_ns()) / static_cast<double>(kNsPerMs);
    finding.window = {group.lost.intervals().front().from_ns, group.lost.intervals().back().to_ns};
    for (const Stall* stall : group.stalls) {
      finding.lost.push_back({stall->lost().from_ns, stall->lost().to_ns});
    }
    std::sort(finding.lost.begin(), finding.lost.end(),
              [](const TimeRange& a, const TimeRange& b) { return a.to_ns < b.to_ns; });
    finding.evidence.push_back(stall_evidence(context_, group));
    rule.tell(context_, group, finding);
    std::ranges::move(meanwhile_evidence(context_, group), std::back_inserter(finding.evidence));
    return finding;
  }

  const AnalysisContext& context_;
  std::map<Cause, std::vector<CauseGroup>> by_cause_;
};

}  // namespace

Decision decide(const AnalysisContext& context, const Stall& stall) {
  Decision decision{.stall = stall};
  bool found = false;
  for (const CauseRule& rule : cause_rules()) {
    if (stall.wrong_data() > 0 && rule.cause != Cause::kMismatchedCollective) {
      continue;  // whatever else slowed it down
    }
    if (found && rule.cause == Cause::kUnknown) {
      continue;  // its judge is dear, and any other opinion goes before it
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

std::vector<Finding> fold(const AnalysisContext& context, const std::vector<Decision>& decisions) {
  Folding folding(context);
  for (const Decision& decision : decisions) {
    folding.add(decision);
  }
  return folding.finish();
}

}  // namespace stalltrace::analysis
