// SPDX-License-Identifier: Apache-2.0
#include "analysis/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <span>

#include "analysis/benchmarks/judge_benchmarks.h"
#include "analysis/captures/judge_captures.h"
#include "analysis/causes/recorded_kinds.h"
#include "analysis/causes/set_up/init_failure.h"
#include "analysis/devices/judge_devices.h"
#include "analysis/devices/judge_gpu_states.h"
#include "analysis/evidence/reads/compared_members.h"
#include "analysis/findings/call_sites.h"
#include "analysis/findings/cause_groups.h"
#include "analysis/findings/describe_attempts.h"
#include "analysis/findings/dumped_stacks.h"
#include "analysis/findings/expensive_calls.h"
#include "analysis/findings/failed_ranks.h"
#include "analysis/findings/inspect.h"
#include "analysis/findings/python_locations.h"
#include "analysis/findings/stalled_calls.h"
#include "analysis/findings/unseen_graphs.h"
#include "analysis/inspector/judge_inspector.h"
#include "analysis/launches/judge_launches.h"
#include "analysis/node_filter.h"
#include "analysis/order/explain_order.h"
#include "analysis/profiles/recorded_range.h"
#include "analysis/rank_numbers.h"
#include "analysis/stalls/find_stalls.h"
#include "analysis/stalls/single_node.h"
#include "analysis/thresholds/causes.h"
#include "analysis/thresholds/gates.h"
#include "analysis/timeline/batches/batches.h"
#include "analysis/timeline/communicators/communicator_names.h"
#include "analysis/traces/judge_traces.h"
#include "base/clock.h"
#include "base/text.h"
#include "model/events/loss_sources.h"

namespace stalltrace {
namespace {

using namespace analysis;

/// More communicators than this are counted.
constexpr size_t kMissingListed = 8;

void note_missing_ranks(const Timeline& timeline, Report& report) {
  std::set<std::string> seen;
  for (const Group& group : timeline.groups()) {
    const MissingRanks& missing = group.unrecorded;
    if (missing.empty()) {
      continue;
    }
    const std::string whose =
        group.judged_by_job() ? "the job" : fmt::format("communicator {}", format_hash(group.name()));
    const std::string text = fmt::format("{} has {} ranks, {} recorded; not recorded: {}", whose, missing.world_size(),
                                         missing.world_size() - missing.count(), missing.text());
    if (seen.insert(text).second) {
      if (seen.size() <= kMissingListed) {
        report.notes.push_back(text);
      }
      if (report.unrecorded_ranks.empty()) {
        report.unrecorded_ranks = text;
      }
    }
  }
  if (seen.size() > kMissingListed) {
    report.notes.push_back(
        fmt::format("{} more communicators have ranks that were not recorded", seen.size() - kMissingListed));
  }
}

/// Who is late in every step makes no step longer than usual, and in a batch nothing else shows it.
void note_batches(const Timeline& timeline, Report& report) {
  const int64_t in_batches = count_ended_with_later_ones(timeline);
  if (in_batches > 0 && share_of(in_batches, timeline.rows()) >= kCoverage) {
    report.notes.push_back(
        fmt::format("{} of {} collectives ended with a synchronisation that ended later ones too: a rank that is late "
                    "in every step is not visible; record with the NCCL profiler plugin (stalltrace run), or give "
                    "explain a run that was right (--like)",
                    in_batches, timeline.rows()));
  }
}

/// The requested window in UTC.
Result<TimeRange> resolve(const TimeWindow& window, const Report& report) {
  const TimeRange range = window.at(report.range.from_ns);
  if (window.from && window.to && range.from_ns >= range.to_ns) {
    return fail("--from is not before --to", "give the earlier time to --from", ErrorKind::kUsage);
  }
  const char* outside = nullptr;
  if (report.collectives > 0 && range.from_ns >= report.range.to_ns) {
    outside = "--from is after the end";
  } else if (report.collectives > 0 && range.to_ns <= report.range.from_ns) {
    outside = "--to is before the start";
  }
  if (outside != nullptr) {
    return fail(fmt::format("{} of the recording: nothing was judged", outside),
                fmt::format("it lasts {} from {}", format_duration(report.range.to_ns - report.range.from_ns),
                            format_utc(report.range.from_ns)),
                ErrorKind::kNotFound);
  }
  return range;
}

/// Number of collectives that overlap `range`.
int64_t collectives_in(const Timeline& timeline, TimeRange range) {
  int64_t count = 0;
  for (const CallSequence& sequence : timeline.sequences()) {
    count += std::ranges::count_if(sequence.calls, [&](const Call& call) {
      return call.present && call.arrival_ns < range.to_ns && call.end_ns() >= range.from_ns;
    });
  }
  return count;
}

void describe_recording(const Cluster& cluster, const Timeline& timeline, Report& report) {
  std::set<MemberIndex> ranks;
  for (const CallSequence& sequence : timeline.sequences()) {
    ranks.insert(sequence.member);
  }
  report.nodes = static_cast<int64_t>(cluster.nodes().size());
  for (const Loss& loss : report.losses) {
    report.node_names.emplace(loss.node_id, cluster.node_name(loss.node_id));
  }
  report.ranks = static_cast<int64_t>(ranks.size());
  report.range = recorded_range(cluster, timeline);
  report.collectives = timeline.rows();
  for (const Loss& loss : report.losses) {
    report.lost_events += loses_events(loss.source) ? loss.count : 0;
  }
  std::erase_if(report.losses, [](const Loss& loss) { return loss.count == 0; });
  const auto add = [&](const std::vector<std::string>& notes) {
    report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  };
  add(cluster.clock().notes());
  add(timeline.notes());
  add(notes_on_unrecorded(cluster.nodes()));
  note_missing_ranks(timeline, report);
  note_batches(timeline, report);
  if (timeline.rows() == 0 && timeline.communicator_calls().empty()) {
    report.notes.emplace_back("the recording holds no collectives: nothing could be judged");
  }
  if (timeline.unknown_rows() > 0) {
    report.notes.push_back(
        fmt::format("{} collectives are on communicators made before tracing began; their instances were put together "
                    "by order and time",
                    timeline.unknown_rows()));
  }
}

void add_stalls(std::vector<Stall> more, StallSearch& search) {
  if (more.empty()) {
    return;
  }
  search.stalls.insert(search.stalls.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  std::stable_sort(search.stalls.begin(), search.stalls.end(),
                   [](const Stall& a, const Stall& b) { return a.window.from_ns < b.window.from_ns; });
}

/// Up to this many ranks, every stall has the waits of all of them.
constexpr size_t kAllWaitsMembers = 256;

/// The times that evidence is read for.
std::vector<Examined> examined(const Cluster& cluster, const StallSearch& search) {
  std::vector<Examined> windows;
  windows.reserve(search.stalls.size());
  const auto add = [&](const std::vector<Stall>& stalls) {
    for (const Stall& stall : stalls) {
      Examined& one = windows.emplace_back(Examined{.window = stall.examined()});
      if (cluster.members().size() > kAllWaitsMembers && stall.suspects.size() <= kMostCompared) {
        one.waits_of = compared_members(stall.members);
        one.waits_of.insert(one.waits_of.end(), stall.suspects.begin(), stall.suspects.end());
      }
    }
  };
  add(search.stalls);
  if (search.watched) {
    add(search.watched->declined);
  }
  return windows;
}

std::vector<NodeClock> clocks_of(const Cluster& cluster) {
  std::vector<NodeClock> clocks;
  for (const Node& node : cluster.nodes()) {
    const Clock& clock = cluster.clock();
    const ClockLine line = clock.line(node.node_id);
    clocks.push_back(
        {node.node_id, line.shift_ns, clock.error_ns(node.node_id), line.drift, clock.source(node.node_id)});
  }
  return clocks;
}

/// The same for a reader.
std::vector<ComparedClock> compared_clocks(const Cluster& cluster, std::span<const NodeClock> clocks) {
  std::vector<ComparedClock> compared;
  const Clock& clock = cluster.clock();
  const auto reference =
      std::ranges::find_if(clocks, [&](const NodeClock& one) { return clock.host(one.node_id) == clock.reference(); });
  if (clocks.size() < 2 || reference == clocks.end()) {
    return compared;
  }
  const std::string name = cluster.node_name(reference->node_id);
  constexpr double kPpmOfRate = 1e6;
  for (const NodeClock& one : clocks) {
    compared.push_back({.node = cluster.node_name(one.node_id),
                        .reference = name,
                        .offset_ns = -one.shift_ns,
                        .drift_ppm = one.drift.rate == 0 ? 0 : -one.drift.rate * kPpmOfRate,
                        .error_ns = one.error_ns,
                        .comparable = one.error_ns && clock.comparable(reference->node_id, one.node_id),
                        .source = one.source});
  }
  return compared;
}

Result<EvidenceStore> load_evidence(EventSource& source, Cluster& cluster, const Flows& flows,
                                    std::vector<Examined> examined, EvidenceProvider* provider) {
  if (provider == nullptr || examined.empty()) {
    return EvidenceStore::load(source, cluster, flows, std::move(examined));
  }
  std::vector<Interval> windows;
  windows.reserve(examined.size());
  for (const Examined& one : examined) {
    windows.push_back(one.window);
  }
  ST_TRY(provider->begin(EvidenceReads::of(windows, cluster), clocks_of(cluster)));
  Result<EvidenceStore> evidence = EvidenceStore::load(source, cluster, flows, std::move(examined));
  provider->end();
  return evidence;
}

/// Where they would be worth an `unknown`: ranks of healthy jobs wait for each other as well.
void note_unplaced_waits(const UnplacedWaits& waits, Report& report) {
  const int64_t judged_ns = std::max<int64_t>(report.judged_range.length(), 1);
  const double share = static_cast<double>(waits.waited_ns) / static_cast<double>(judged_ns);
  if (waits.longest_ns < kUnknownGate.single_ns &&
      (waits.waited_ns < kUnknownGate.total_ns || share < kUnknownGate.share)) {
    return;
  }
  report.unplaced_waits = fmt::format(
      "in {} ranks waited for one that came late, for {} together, by their own clocks; which one is not known, "
      "because "
      "the clocks of their hosts could not be compared closely enough: start the agents before the job, and let one "
      "time service (chrony, PTP) set the clocks of all hosts",
      count_of(waits.collectives, "collective"), format_duration(waits.waited_ns));
  report.notes.push_back(report.unplaced_waits);
}

void describe_reference(const Reference& reference, const ReferenceUse& use, Report& report) {
  report.like = reference.run();
  report.like->comparable = use.comparable;
  report.like->not_comparable = use.other;
  report.notes.push_back(note_on(use, reference));
}

/// What was left out because there is too much to hold.
void note_dropped(const StallSearch& search, const EvidenceStore& evidence, Report& report) {
  std::vector<std::string> dropped;
  if (search.dropped > 0) {
    dropped.push_back(fmt::format("the {} cheapest stalls", search.dropped));
  }
  for (const DroppedRows& rows : evidence.dropped_rows()) {
    dropped.push_back(fmt::format("{} rows of {}", rows.rows, rows.table));
  }
  if (!dropped.empty()) {
    report.notes.push_back(
        fmt::format("too much evidence to hold: {} were left out, of all stalls alike; a shorter time range shows all",
                    fmt::join(dropped, ", ")));
  }
}

/// Puts set-ups that failed before the findings of stalls, and those that may still succeed behind them. Returns the
/// number before.
Result<size_t> add_init_failures(EventSource& source, Cluster& cluster, const Timeline& timeline, TimeRange range,
                                 const ExplainOptions& options, Report& report) {
  ST_ASSIGN(std::vector<Finding> failures, find_init_failures(source, cluster, timeline, range, options.called));
  const auto waiting = std::stable_partition(
      failures.begin(), failures.end(), [](const Finding& finding) { return finding.severity != Severity::kWaiting; });
  report.findings.insert(report.findings.begin(), failures.begin(), waiting);
  report.findings.insert(report.findings.end(), waiting, failures.end());
  return static_cast<size_t>(waiting - failures.begin());
}

/// What logs and dumps show. `measured` has the rows with durations.
Status add_ordered_calls(EventSource& recorded, EventSource& measured, const TimeWindow& window, Report& report) {
  ST_ASSIGN(const std::set<NodeId> called, nodes_with_ordered_calls(recorded));
  if (called.empty()) {
    return {};
  }
  NodeFilter ordered(recorded, called, NodeFilter::Keep::kListed);
  const bool only_order = report.collectives == 0;
  ST_TRY(add_order(ordered, measured, report));
  if (!window.empty()) {
    report.notes.emplace_back("a time range does not limit what logs and dumps show: the order of all calls is judged");
  }
  if (only_order) {
    ST_TRY(resolve(window, report));
  }
  return {};
}

/// What other programs recorded. Returns the number of findings that were put before those of the report.
Result<size_t> add_imported(EventSource& recorded, Report& report) {
  ST_TRY(add_launches(recorded, report));
  ST_TRY(add_inspector(recorded, report));
  ST_ASSIGN(const size_t errors_before, add_device_errors(recorded, report));
  ST_TRY(add_gpu_states(recorded, report));
  ST_TRY(add_dumped_stacks(recorded, report.findings, report.notes));
  ST_TRY(add_benchmarks(recorded, report));
  ST_TRY(add_profiles(recorded, report));
  ST_TRY(add_captures(recorded, report));
  return errors_before;
}

}  // namespace

Result<ExplainResult> explain(EventSource& recorded, const ExplainOptions& options) {
  ST_ASSIGN(CommonNames names, CommonNames::read(recorded));
  ST_ASSIGN(const std::set<NodeId> logged, nodes_without_durations(names.source()));
  NodeFilter measured(names.source(), logged, NodeFilter::Keep::kOthers);
  EventSource& source = logged.empty() ? names.source() : measured;
  ExplainResult result;
  Report& report = result.report;
  report.has_others_evidence = !logged.empty();
  ST_ASSIGN(report.losses, names.source().losses());
  ST_ASSIGN(Cluster cluster, Cluster::load(source));
  cluster.set_measured_clocks(options.measured_clocks);
  ST_ASSIGN(Timeline timeline, Timeline::load(source, cluster));
  ST_TRY(find_end(source, cluster, timeline));
  describe_recording(cluster, timeline, report);
  ST_ASSIGN(const TimeRange range, resolve(options.window, report));
  report.judged_range = {std::max(range.from_ns, report.range.from_ns), std::min(range.to_ns, report.range.to_ns)};
  report.judged = options.window.empty() ? report.collectives : collectives_in(timeline, range);
  StallSearchOptions with{.range = range, .watched = {}, .reference = options.reference};
  if (options.instance) {
    ST_ASSIGN(with.watched, find_instance(source, cluster, timeline, *options.instance));
  }
  ST_ASSIGN(const Flows flows, Flows::load(source, cluster));
  const JobEnds ends = JobEnds::find(timeline, cluster, flows);
  report.attempts = describe_attempts(cluster, timeline, ends);
  StallSearch search = find_stalls(timeline, cluster, ends, with);
  ST_ASSIGN(std::vector<Stall> single_node, find_single_node_stalls(source, cluster, timeline, flows, ends, range));
  add_stalls(std::move(single_node), search);
  ST_ASSIGN(const EvidenceStore evidence,
            load_evidence(source, cluster, flows, examined(cluster, search), options.provider));
  note_dropped(search, evidence, report);
  note_unplaced_waits(search.unplaced_waits, report);
  if (options.reference != nullptr) {
    describe_reference(*options.reference, search.reference_use, report);
  }
  const Settling settling(timeline);
  ST_ASSIGN(const RaisedExceptions raised, RaisedExceptions::load(source, cluster));
  AnalysisContext context{cluster, timeline, flows, evidence, ends, settling, raised};
  if (!options.window.empty()) {
    context.judged = {report.judged_range.from_ns, report.judged_range.to_ns};
  }
  std::vector<Decision>& decisions = result.decisions;
  decisions.reserve(search.stalls.size());
  for (Stall& stall : search.stalls) {
    decisions.push_back(decide(context, std::move(stall)));
  }
  std::vector<StallFinding> findings = group_by_cause(context, decisions, report.notes);
  ST_TRY(add_expensive_calls(source, cluster, timeline, findings));
  ST_TRY(add_python_locations(source, cluster, findings, report.notes));
  if (options.stalled_calls) {
    add_stalled_calls(cluster, timeline, findings);
  }
  result.clocks = clocks_of(cluster);
  report.clocks = compared_clocks(cluster, result.clocks);
  for (StallFinding& found : findings) {
    report.findings.push_back(std::move(found.finding));
  }
  ST_TRY(add_call_sites(source, cluster, report.findings));
  ST_ASSIGN(const size_t failed_before, add_init_failures(source, cluster, timeline, range, options, report));
  report.healthy = report.findings.empty();
  note_failed_ranks(context, report);
  ST_TRY(note_unseen_graphs(source, cluster, timeline, report));
  if (!logged.empty() && cluster.nodes().empty()) {
    report.notes.clear();  // on a recording that is not there
  }
  ST_TRY(add_ordered_calls(names.source(), source, options.window, report));
  ST_ASSIGN(const size_t errors_before, add_imported(names.source(), report));
  note_findings(findings, errors_before + failed_before, decisions);
  if (search.watched) {
    const InspectionQuery query{*options.instance, *with.watched, range};
    result.inspection = inspect(context, query, *search.watched, decisions);
  }
  return result;
}

}  // namespace stalltrace
