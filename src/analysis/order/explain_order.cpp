// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/explain_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "analysis/order/judge_order.h"
#include "analysis/order/judge_raised.h"
#include "analysis/order/message_sizes.h"
#include "analysis/order/processes/process_reports.h"
#include "analysis/order/set_up/log_set_up.h"
#include "analysis/order/torch_reports.h"
#include "analysis/order/watchdog/judge_watchdog.h"
#include "analysis/rank_numbers.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

Result<std::set<std::pair<CommHash, int32_t>>> recorded_ranks(EventSource& recorded) {
  std::set<std::pair<CommHash, int32_t>> ranks;
  ST_ASSIGN(const std::vector<Communicator> communicators, recorded.communicators());
  for (const Communicator& row : communicators) {
    if (row.rank) {
      ranks.insert({row.comm_id_hash, *row.rank});
    }
  }
  return ranks;
}

/// The largest communicator is the job's: whose evidence is missing there is reported.
void note_unshown_ranks(const OrderEvidence& evidence, Report& report) {
  const auto largest = std::ranges::max_element(evidence.comms, {}, &CommOrder::nranks);
  if (largest == evidence.comms.end() || evidence.calls == 0) {
    return;
  }
  std::set<int32_t> shown;
  int64_t unnumbered = 0;  // of which rank they are is not known
  for (const CallOrder& member : largest->members) {
    if (member.rank) {
      shown.insert(*member.rank);
    } else {
      ++unnumbered;
    }
  }
  const MissingRanks missing(shown, largest->nranks);
  const int64_t count = missing.count() - unnumbered;
  if (count <= 0) {
    return;
  }
  const bool dumps = evidence.ends_known;
  const std::string_view what = dumps ? "dump" : "log";
  const std::string_view why = dumps ? "a rank that died writes none, so that the culprit may be among them"
                                     : "what happened there is not known";
  report.notes.push_back(unnumbered == 0
                             ? fmt::format("no {} of {}: {}", what, missing.text(), why)
                             : fmt::format("no {} of {} of {} ranks, and which ones these are is not known: {}", what,
                                           count, largest->nranks, why));
}

void note_limits(const OrderEvidence& evidence, Report& report) {
  if (!evidence.ends_known && evidence.calls > 0) {
    report.notes.emplace_back(
        "NCCL's log has no ends: what is known is the last call that each rank began, not whether it ended");
  }
  if (evidence.ends_known) {
    report.notes.emplace_back(
        "a dump does not record when it was made: how long its open calls had waited then is not known");
  }
  if (!evidence.timed && evidence.calls > 0) {
    report.notes.emplace_back(
        "calls have no times in the log: only the order of each rank's calls is known, and times shown here number the "
        "lines");
  }
  if (evidence.pairs > 0) {
    report.notes.push_back(
        fmt::format("{} of {} calls are Sends and Recvs: not judged, since not every rank makes them", evidence.pairs,
                    evidence.calls));
  }
  if (evidence.unplaced > 0) {
    report.notes.push_back(
        fmt::format("{} of {} calls could not be lined up between ranks (no set-up line names the communicator, or "
                    "opCount does not count its calls): not judged",
                    evidence.unplaced, evidence.calls));
  }
  if (evidence.calls == 0) {
    report.notes.emplace_back(
        "the logs show no calls: they do with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL,NET");
  }
}

}  // namespace

Status add_order(EventSource& ordered, EventSource& recorded, Report& report) {
  ST_ASSIGN(const OrderEvidence evidence, read_order(ordered));
  ST_ASSIGN(const auto ranks, recorded_ranks(recorded));
  OrderVerdicts verdicts = judge_order(evidence, ranks);
  const auto is_unknown = [](const Finding& finding) { return finding.cause == Cause::kUnknown; };
  if (std::ranges::all_of(verdicts.findings, is_unknown)) {
    ST_ASSIGN(const WatchdogLogs logs, read_watchdog_logs(ordered));
    WatchdogVerdicts watchdog = judge_watchdog(logs);
    if (evidence.calls > 0) {  // then the calls show more than that all wait
      std::erase_if(watchdog.findings, is_unknown);
    }
    if (!watchdog.findings.empty()) {
      verdicts.findings.clear();
    }
    std::ranges::move(watchdog.findings, std::back_inserter(verdicts.findings));
    std::ranges::move(watchdog.notes, std::back_inserter(verdicts.notes));
  }
  ST_ASSIGN(LogWarnings warnings, judge_warnings(ordered));
  std::ranges::move(warnings.findings, std::back_inserter(verdicts.findings));
  ST_TRY(add_torch_reports(ordered, verdicts.findings));
  ST_TRY(add_raised(ordered, verdicts.findings, verdicts.notes));
  ST_TRY(add_process_reports(ordered, verdicts.findings, verdicts.notes));
  if (std::ranges::all_of(verdicts.findings, is_unknown)) {
    ST_ASSIGN(std::optional<Finding> sizes, judge_message_sizes(ordered));
    if (sizes) {
      verdicts.findings.clear();
      verdicts.findings.push_back(std::move(*sizes));
    }
  }
  std::ranges::stable_sort(verdicts.findings, std::greater<>(), &Finding::severity);
  std::ranges::move(verdicts.findings, std::back_inserter(report.findings));
  note_limits(evidence, report);
  note_unshown_ranks(evidence, report);
  std::ranges::move(verdicts.notes, std::back_inserter(report.notes));
  std::ranges::move(warnings.notes, std::back_inserter(report.notes));
  if (report.nodes == 0 || report.collectives == 0) {
    report.range = {evidence.first_ns,
                    std::max(evidence.ends_known ? evidence.last_call_ns : evidence.last_ns, evidence.first_ns)};
    report.judged_range = report.range;
  }
  std::set<NodeId> nodes;
  for (const auto& [key, process] : evidence.processes) {
    if (process.newest_call != 0) {
      ++report.ranks;
      nodes.insert(key.first);
    }
  }
  report.nodes += nodes.empty() && report.nodes == 0 ? std::ssize(evidence.nodes) : std::ssize(nodes);
  report.collectives += evidence.calls;
  report.judged += evidence.calls;
  for (const auto& [id, node] : evidence.nodes) {
    report.node_names.emplace(id, node.name);
  }
  report.ends_unknown = !evidence.nodes.empty();
  report.healthy = report.findings.empty();
  return {};
}

}  // namespace stalltrace::analysis
