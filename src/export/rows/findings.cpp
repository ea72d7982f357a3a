// SPDX-License-Identifier: Apache-2.0
// Findings, and the stalls that they explain.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "base/text.h"
#include "export/rows/exporter.h"

namespace stalltrace::trace_export {

/// Instances of findings whose list is full. Others may affect more collectives than have stalled.
uint64_t Exporter::stalls_without_calls() const {
  uint64_t missing = 0;
  for (const Finding& finding : report_.findings) {
    size_t calls = 0;
    for (const StalledInstance& instance : finding.stalled) {
      calls += instance.calls.size();
    }
    const auto listed = static_cast<int64_t>(finding.stalled.size());
    if (calls >= most_stalled_calls_ && finding.collectives_affected > listed) {
      missing += static_cast<uint64_t>(finding.collectives_affected - listed);
    }
  }
  return missing;
}

void Exporter::put_findings() {
  if (report_.findings.empty()) {
    return;
  }
  findings_ = writer_.process("findings", 0);
  const auto name = [] { return std::string("findings"); };
  const auto begin_of = [this](size_t i) {
    return std::clamp(report_.findings[i].window.from_ns, span_.from_ns, span_.to_ns);
  };
  std::vector<size_t> by_time(report_.findings.size());
  std::iota(by_time.begin(), by_time.end(), size_t{0});
  std::ranges::stable_sort(by_time, {}, begin_of);
  for (const size_t i : by_time) {
    const Finding& finding = report_.findings[i];
    const int64_t from = begin_of(i);
    const int64_t to = std::clamp(finding.window.to_ns, from, std::max(from, span_.to_ns));
    notes_.clear()
        .add("finding", static_cast<int64_t>(i) + 1)
        .unique("summary", finding.summary)
        .add("severity", to_text(finding.severity))
        .add("confidence", finding.confidence)
        .add("lost_ms", finding.stall_ms)
        .add("collectives_affected", finding.collectives_affected)
        .unique("do", finding.remedy);
    std::string culprit;
    if (finding.culprit) {
      culprit = fmt::format("{}{}", finding.culprit->rank ? fmt::format("rank {} ", *finding.culprit->rank) : "",
                            finding.culprit->node);
    }
    std::string evidence;
    for (const Evidence& one : finding.evidence) {
      evidence += (evidence.empty() ? "" : "\n") + one.text;
    }
    notes_.unique("culprit", culprit).unique("evidence", evidence);
    if (finding.comm_id_hash != 0) {
      notes_.hex("comm_id_hash", finding.comm_id_hash);
    }
    writer_.slice(
        {findings_, RowKind::kFindings, 0, name},
        {.category = "finding", .name = to_text(finding.cause), .begin_ns = from, .end_ns = to, .annotations = notes_});
  }
}

/// One slice for each stalled instance, where its culprit is. Before the calls that it leads to: of events at one time
/// a viewer takes the first one as the origin.
Status Exporter::put_stalls() {
  std::vector<std::optional<ProcessKey>> culprits;
  for (const Finding& finding : report_.findings) {
    culprits.push_back(participants_.culprit_of(finding, report_));
  }
  flows_.emplace(report_.findings, culprits, clock_);
  if (!flows_->empty()) {
    ST_TRY(each<Collective>([this](const Collective& row) {
      if (participants_.selected({row.node_id, row.pid})) {
        flows_->match(row);
      }
    }));
  }
  const auto name = [] { return std::string("stalls that others waited in"); };
  std::unordered_set<FlowId> without_origin;
  for (const StallSlice* slice : flows_->slices_by_time()) {
    const StallSlice& stall = *slice;
    if (stall.flows.empty() && !selection_.has(stall.begin_ns, stall.end_ns)) {
      continue;
    }
    TrackId parent = stall.culprit ? participants_.process(stall.culprit->first, stall.culprit->second) : kNoTrack;
    parent = parent == kNoTrack ? findings_ : parent;
    const Finding& finding = report_.findings[stall.finding];
    notes_.clear()
        .add("finding", static_cast<int64_t>(stall.finding) + 1)
        .add("waiting_calls", static_cast<int64_t>(stall.flows.size()));
    const bool written = writer_.slice({parent, RowKind::kStalls, 0, name}, {.category = "stall",
                                                                             .name = to_text(finding.cause),
                                                                             .begin_ns = stall.begin_ns,
                                                                             .end_ns = stall.end_ns,
                                                                             .annotations = notes_,
                                                                             .flows_out = stall.flows});
    if (!written) {
      without_origin.insert(stall.flows.begin(), stall.flows.end());
    }
  }
  flows_->remove(without_origin);
  return {};
}

}  // namespace stalltrace::trace_export
