// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "analysis/stalls/baselines.h"
#include "analysis/stalls/search/step_lateness.h"
#include "analysis/thresholds/reference.h"
#include "analysis/thresholds/stalls.h"
#include "base/text.h"
#include "model/operation.h"

namespace stalltrace::analysis {
namespace {

/// The bits of ReferenceClass::measured above one for each Completion.
constexpr uint16_t kByDevice = 1U << 8U;
constexpr uint16_t kEndsStep = 1U << 9U;
constexpr uint16_t kAllCall = 1U << static_cast<unsigned>(Completion::kCall);
static_assert(static_cast<unsigned>(Completion::kUnobserved) < 8);

uint16_t how_measured(const Timeline& timeline, const Instance& instance) {
  unsigned measured = (instance.by_device ? kByDevice : 0U) | (instance.batch == BatchPart::kLast ? kEndsStep : 0U);
  for (const Arrival& seen : instance.seen) {
    const Call* call = timeline.sequences()[seen.sequence].call_at(instance.number);
    measured |= call == nullptr ? 0U : 1U << static_cast<unsigned>(call->completion);
  }
  return static_cast<uint16_t>(measured);
}

/// Keeps the one that allows for more.
void keep_slower(const Baseline& baseline, Baseline& kept) {
  if (baseline.known && (!kept.known || baseline.limit_ns > kept.limit_ns)) {
    kept = baseline;
    kept.by_reference = true;
  }
}

/// How late the rank that is the last one by the most usually is, of those of one group.
std::optional<int64_t> largest_lateness_ns(const Timeline& timeline, std::span<const Clock::Known> clocks,
                                           uint32_t group, UsualLateness& usual) {
  std::optional<int64_t> largest_ns;
  for (const uint32_t sequence : timeline.groups()[group].sequences) {
    largest_ns = std::max(largest_ns, usual.of(timeline, clocks, group, sequence));  // none is less than any
  }
  return largest_ns;
}

std::string why_not_comparable(const ReferenceClass& of, const Reference& reference) {
  if (!of.shows_transfers()) {
    return "what is known of them includes the time in their devices' queues (record both runs with the profiler "
           "plugin and NCCL 2.26 or newer)";
  }
  if (reference.transfer(of) != nullptr) {
    return of.ends_step() ? "one of the two runs has too few steps with as many calls"
                          : "this run has too few of them on one communicator";
  }
  return reference.measured_otherwise(of)
             ? "when calls begin and end is known in another way there (record both runs with the profiler plugin, or "
               "both without, and with one version of NCCL)"
             : "that run has too few of this operation, size, ranks and hosts";
}

}  // namespace

bool ReferenceClass::ends_step() const { return (measured & kEndsStep) != 0; }

bool ReferenceClass::shows_transfers() const {
  return (measured & (kByDevice | kEndsStep)) != 0 || measured == kAllCall;
}

std::string ReferenceClass::text() const {
  const std::string among =
      recorded == ranks || ranks == 0 ? count_of(recorded, "rank") : fmt::format("{} of {} ranks", recorded, ranks);
  return fmt::format("{}{} among {} on {}", display_name(op), bytes < 0 ? "" : " of " + format_size(bytes), among,
                     count_of(hosts, "host"));
}

ReferenceClasses::ReferenceClasses(const Timeline& timeline, const Cluster& cluster) : timeline_(&timeline) {
  for (const Group& group : timeline.groups()) {
    std::set<MemberIndex> members;
    std::set<size_t> hosts;
    for (const uint32_t index : group.sequences) {
      const MemberIndex member = timeline.sequences()[index].member;
      members.insert(member);
      hosts.insert(cluster.clock().host(cluster.member(member).node_id));
    }
    shapes_.push_back(
        {group.nranks.value_or(0), static_cast<int32_t>(members.size()), static_cast<int32_t>(hosts.size())});
  }
}

ReferenceClass ReferenceClasses::of(const Instance& instance) const {
  const CallSignature& signature = timeline_->signature(instance.signature);
  const Shape& shape = shapes_[instance.group];
  return {.op = signature.op,
          .bytes = signature.bytes,
          .ranks = shape.ranks,
          .recorded = shape.recorded,
          .hosts = shape.hosts,
          .measured = how_measured(*timeline_, instance)};
}

Reference Reference::learn(const Timeline& timeline, const Cluster& cluster) {
  Reference reference;
  std::set<MemberIndex> ranks;
  for (const CallSequence& sequence : timeline.sequences()) {
    ranks.insert(sequence.member);
  }
  reference.run_.nodes = static_cast<int64_t>(cluster.nodes().size());
  reference.run_.ranks = static_cast<int64_t>(ranks.size());
  reference.run_.collectives = timeline.rows();
  std::vector<Clock::Known> clocks;
  for (const Member& member : cluster.members()) {
    clocks.push_back(cluster.clock().known(member.node_id));
  }
  const ReferenceClasses classes(timeline, cluster);
  UsualLateness usual_lateness;
  Instance instance;
  for (uint32_t group = 0; group < timeline.groups().size(); ++group) {
    std::map<ReferenceClass, BaselineSample> transfers;
    std::map<ReferenceStepClass, BaselineSample> steps;
    for_each_instance(timeline, group, instance, [&] {
      if (counts_for_baseline(timeline, instance)) {
        const ReferenceClass of = classes.of(instance);
        transfers[of].add(instance.transfer_ns());
        if (const std::optional<BatchStep> step = step_before(timeline, instance)) {
          steps[{of, step->calls}].add(step->period_ns);
        }
      }
    });
    for (auto& [of, sample] : transfers) {
      if (const Baseline baseline = Baseline::of_all(sample, kBaselineInstances, kReferenceFloorNs); baseline.known) {
        keep_slower(baseline, reference.transfers_[of]);
      }
    }
    const std::optional<int64_t> lateness_ns =
        steps.empty() ? std::nullopt : largest_lateness_ns(timeline, clocks, group, usual_lateness);
    for (auto& [of, sample] : steps) {
      if (const Baseline baseline = Baseline::of_all(sample); baseline.known) {
        ReferenceStep& step = reference.steps_[of];
        keep_slower(baseline, step.period);
        step.lateness_ns = std::max(step.lateness_ns, lateness_ns);
      }
    }
  }
  return reference;
}

const Baseline* Reference::transfer(const ReferenceClass& of) const {
  const auto found = of.shows_transfers() ? transfers_.find(of) : transfers_.end();
  return found == transfers_.end() ? nullptr : &found->second;
}

const ReferenceStep* Reference::step(const ReferenceStepClass& of) const {
  const auto found = steps_.find(of);
  return found == steps_.end() ? nullptr : &found->second;
}

bool Reference::measured_otherwise(const ReferenceClass& of) const {
  ReferenceClass first = of;
  first.measured = 0;  // the classes that differ only by it follow this one
  const auto next = transfers_.lower_bound(first);
  if (next == transfers_.end() || transfer(of) != nullptr) {
    return false;
  }
  ReferenceClass found = next->first;
  found.measured = 0;
  return found == first;
}

std::string note_on(const ReferenceUse& use, const Reference& reference) {
  const ReferenceRun& run = reference.run();
  std::string note =
      fmt::format("{} of {} have comparable ones in the run given by --like ({} of {} on {})", use.comparable,
                  count_of(use.comparable + use.other, "instance"), count_of(run.collectives, "collective"),
                  count_of(run.ranks, "rank"), count_of(run.nodes, "node"));
  if (use.others.empty()) {
    return note;
  }
  const ReferenceClass& example =
      std::ranges::max_element(use.others, {}, &std::pair<const ReferenceClass, int64_t>::second)->first;
  return note + fmt::format("; the others, such as {}, were judged by this run alone: {}", example.text(),
                            why_not_comparable(example, reference));
}

}  // namespace stalltrace::analysis
