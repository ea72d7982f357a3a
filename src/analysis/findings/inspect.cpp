// SPDX-License-Identifier: Apache-2.0
#include "analysis/findings/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "analysis/causes/cause.h"
#include "analysis/findings/cause_groups.h"
#include "analysis/stalls/baseline.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr std::array<const char*, 3> kPartNames{"late", "transfer", "absent"};  // by StallPart

int64_t median_of(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::optional<Collective> row_of(EventSource& source, EventId id, Status& status) {
  std::optional<Collective> found;
  status = source.collectives({}, [&](const Collective& row) {
    if (row.event_id == id) {
      found = row;
    }
  });
  return found;
}

}  // namespace

Result<Inspector> Inspector::find(EventSource& source, const Cluster& cluster, const Timeline& timeline, EventId id) {
  Status read;
  const std::optional<Collective> row = row_of(source, id, read);
  ST_TRY(read);
  const std::string name = fmt::format("{}:{}", cluster.node_name(node_of(id)), number_of(id));
  if (!row) {
    return fail(fmt::format("no call {} in these recordings", name),
                "stalltrace query FILE \"SELECT name FROM event_name WHERE kind = 'collective'\" lists them",
                ErrorKind::kNotFound);
  }
  const MemberIndex member = cluster.find(row->node_id, row->pid);
  const int64_t arrival_ns = cluster.clock().to_common(row->node_id, row->timestamp_ns);
  Inspector inspector(timeline);
  inspector.id_ = id;
  for (const CallSequence& sequence : timeline.sequences()) {
    if (sequence.member != member || sequence.hash != row->comm_id_hash || sequence.comm_ptr != row->comm_ptr) {
      continue;
    }
    const auto call = std::find_if(sequence.calls.begin(), sequence.calls.end(), [&](const Call& c) {
      return c.present && c.arrival_ns == arrival_ns && timeline.signature(c.signature).bytes == row->bytes;
    });
    const int64_t column = sequence.first_column() + (call - sequence.calls.begin());
    if (call != sequence.calls.end() && (!row->seq || sequence.column_offset + *row->seq == column) &&
        read_instance(timeline, sequence.group, column, inspector.instance_)) {
      inspector.like_ = inspector.like();
      return inspector;
    }
  }
  return fail(fmt::format("{} is a {}: it has no instance on other ranks", name, display_name(row->op)),
              "name a call that moves data", ErrorKind::kUsage);
}

bool Inspector::warming_up() const {
  return instance_.column < kWarmUpInstances && timeline_->groups()[instance_.group].hash != 0;
}

InspectedLike Inspector::like() const {
  BaselineSample sample;
  std::vector<int64_t> transfers;
  Instance other;
  const Group& group = timeline_->groups()[instance_.group];
  const uint16_t kind = timeline_->signature(instance_.signature).like;
  for (const ColumnRange& columns : columns_of(*timeline_, group)) {
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      const bool warm = column >= kWarmUpInstances || group.hash == 0;
      if (warm && read_instance(*timeline_, instance_.group, column, other) && other.completed() &&
          timeline_->signature(other.signature).like == kind) {
        sample.add(other.transfer_ns());
        transfers.push_back(other.transfer_ns());
      }
    }
  }
  InspectedLike like{.count = sample.count(), .late_limit_ns = warming_up() ? kWarmUpFloorNs : kStallFloorNs};
  const Baseline baseline = Baseline::of(sample);
  like.enough = baseline.known;
  like.usual_ns = baseline.usual_ns;
  like.limit_ns = warming_up() ? std::max(baseline.limit_ns, kWarmUpFloorNs) : baseline.limit_ns;
  if (!transfers.empty()) {
    like.median_ns = median_of(transfers);
    for (int64_t& transfer_ns : transfers) {
      transfer_ns = std::abs(transfer_ns - like.median_ns);
    }
    like.mad_ns = median_of(transfers);
  }
  return like;
}

/// The parts that are no stalls, as if they were: so that the rules can be asked.
std::vector<Stall> Inspector::ordinary_parts(const std::vector<Stall>& stalls) const {
  std::vector<Stall> parts;
  const auto known = [&](StallPart part) {
    return std::any_of(stalls.begin(), stalls.end(), [&](const Stall& stall) {
      return stall.group == instance_.group && stall.column == instance_.column && stall.part == part;
    });
  };
  const auto add = [&](StallPart part, Interval window, int64_t usual_ns, std::vector<MemberIndex> suspects) {
    if (known(part) || window.length() == 0) {
      return;
    }
    Stall stall{.group = instance_.group, .column = instance_.column, .signature = instance_.signature, .part = part};
    stall.window = window;
    stall.lost_ns = window.length() > usual_ns ? window.length() - usual_ns : window.length();
    stall.has_baseline = like_.enough;
    stall.baseline_ns = usual_ns;
    stall.suspects = std::move(suspects);
    for (const Arrival& seen : instance_.seen) {
      stall.members.push_back(timeline_->sequences()[seen.sequence].member);
    }
    if (part == StallPart::kTransfer) {
      stall.suspects = stall.members;
    } else {
      stall.calling_tid = timeline_->sequences()[instance_.seen.back().sequence].tid;
    }
    parts.push_back(std::move(stall));
  };
  add(StallPart::kLate, {instance_.waits_from_ns, instance_.last_arrival_ns}, 0,
      {timeline_->sequences()[instance_.seen.back().sequence].member});
  if (instance_.completed()) {
    add(StallPart::kTransfer, {instance_.last_arrival_ns, instance_.completion_ns}, like_.usual_ns, {});
  }
  return parts;
}

std::vector<Stall> Inspector::with_parts(const std::vector<Stall>& stalls) const {
  std::vector<Stall> all = stalls;
  std::vector<Stall> more = ordinary_parts(stalls);
  std::move(more.begin(), more.end(), std::back_inserter(all));
  std::stable_sort(all.begin(), all.end(),
                   [](const Stall& a, const Stall& b) { return a.window.from_ns < b.window.from_ns; });
  return all;
}

/// Long, and no stall all the same.
std::string Inspector::why_not_late(const Stall& part) const {
  const std::string length = format_duration(part.window.length());
  const Call* previous = timeline_->sequences()[instance_.seen.back().sequence].at_column(instance_.column - 1);
  if (previous != nullptr && previous->end_ns() > part.window.from_ns && previous->end_ns() <= part.window.to_ns) {
    return fmt::format(
        "the others waited {} for the last rank, but it was in its previous collective until {} before it "
        "came: only that could be its own lateness, and only over {} is a stall",
        length, format_duration(part.window.to_ns - previous->end_ns()), format_duration(like_.late_limit_ns));
  }
  return fmt::format(
      "the others waited {} for the last rank, which is usual for such a pair, or was in other calls of its "
      "own, or the hosts' clocks cannot be compared",
      length);
}

std::string Inspector::why(const Stall& part, bool stall) const {
  const std::string length = format_duration(part.window.length());
  switch (part.part) {
    case StallPart::kLate:
      if (!stall && part.window.length() > like_.late_limit_ns) {
        return why_not_late(part);
      }
      return fmt::format("the others waited {} for the last rank; {} {} is a stall", length,
                         stall ? "over" : "only over", format_duration(like_.late_limit_ns));
    case StallPart::kAbsent:
      return fmt::format("for {} a rank that the others wait for has not come; over {} is a hang", length,
                         format_duration(kHangNs));
    case StallPart::kTransfer:
      break;
  }
  if (part.hung) {
    return fmt::format("it has not ended for {}; over {} is a hang", length, format_duration(kHangNs));
  }
  return fmt::format("the transfer took {}; {} {} is a stall{}", length, stall ? "over" : "only over",
                     format_duration(like_.limit_ns),
                     like_.enough ? "" : ", since too few of its like tell what is usual");
}

InspectedPart Inspector::part_of(const AnalysisContext& context, const Decision& decision, bool stall) const {
  const Stall& lost = decision.stall;
  InspectedPart part{.name = kPartNames[static_cast<size_t>(lost.part)]};
  part.time = {lost.window.from_ns, lost.window.to_ns};
  part.lost_ns = stall ? lost.lost_ns : 0;
  part.stall = stall;
  part.why = why(lost, stall);
  for (const CauseRule& rule : cause_rules()) {
    bool spoke = false;
    for (size_t i = 0; i < decision.hypotheses.size(); ++i) {
      const Hypothesis& hypothesis = decision.hypotheses[i];
      if (hypothesis.cause != rule.cause) {
        continue;
      }
      spoke = true;
      const std::string place =
          hypothesis.place.culprit == kNoMember ? "" : short_name(context.cluster, hypothesis.place.culprit);
      part.causes.push_back({.cause = rule.cause,
                             .chosen = stall && i == decision.chosen,
                             .applies = hypothesis.applies,
                             .dismissed = hypothesis.dismissed,
                             .share = rule.fallback ? std::nullopt : std::optional(hypothesis.coverage),
                             .text = hypothesis.why.empty() ? place : hypothesis.why});
    }
    if (!spoke && !rule.fallback) {
      part.causes.push_back({.cause = rule.cause, .text = std::string(rule.needs)});
    }
  }
  return part;
}

Inspection Inspector::describe(const AnalysisContext& context, const std::vector<Decision>& decisions,
                               const std::vector<Finding>& findings) const {
  Inspection inspection{.event_id = id_, .number = instance_.column, .warming_up = warming_up(), .like = like_};
  inspection.op = timeline_->signature(instance_.signature).op;
  inspection.bytes = timeline_->signature(instance_.signature).bytes;
  inspection.comm_id_hash = timeline_->groups()[instance_.group].hash;
  for (const Arrival& seen : instance_.seen) {
    inspection.calls.push_back({.who = context.cluster.describe(timeline_->sequences()[seen.sequence].member),
                                .arrival_ns = seen.arrival_ns,
                                .end_ns = seen.end_ns == kOpenEnd ? std::nullopt : std::optional(seen.end_ns),
                                .unobserved = seen.end_ns == kOpenEnd && !seen.open});
  }
  for (const uint32_t sequence : instance_.absent) {
    inspection.absent.push_back(context.cluster.describe(timeline_->sequences()[sequence].member));
  }
  inspection.late_ns = instance_.late_ns();
  if (instance_.completed()) {
    inspection.transfer_ns = instance_.transfer_ns();
    const int64_t longest_ns = instance_.completion_ns - instance_.seen.front().arrival_ns;
    const int64_t shortest_ns = instance_.transfer_ns();
    if (like_.enough && longest_ns > like_.usual_ns) {
      inspection.split = share_of(longest_ns - shortest_ns, longest_ns - like_.usual_ns);
    }
  }
  std::vector<Stall> stalls;
  for (const Decision& decision : decisions) {
    if (decision.stall.group != instance_.group || decision.stall.column != instance_.column) {
      continue;
    }
    InspectedPart part = part_of(context, decision, true);
    const Hypothesis& chosen = decision.hypotheses[decision.chosen];
    const Interval lost = decision.stall.lost();
    for (size_t i = 0; i < findings.size() && !chosen.dismissed; ++i) {
      const bool counted = std::any_of(findings[i].lost.begin(), findings[i].lost.end(), [&](const TimeRange& range) {
        return range.from_ns == lost.from_ns && range.to_ns == lost.to_ns;
      });
      if (findings[i].cause == chosen.cause && counted) {
        part.finding = static_cast<int64_t>(i) + 1;
      }
    }
    inspection.parts.push_back(std::move(part));
    stalls.push_back(decision.stall);
  }
  for (const Stall& part : ordinary_parts(stalls)) {
    inspection.parts.push_back(part_of(context, decide(context, part), false));
  }
  std::stable_sort(inspection.parts.begin(), inspection.parts.end(),
                   [](const InspectedPart& a, const InspectedPart& b) { return a.time.from_ns < b.time.from_ns; });
  return inspection;
}

}  // namespace stalltrace::analysis
