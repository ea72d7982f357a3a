// SPDX-License-Identifier: Apache-2.0
#include "export/trace_export.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "export/rows/exporter.h"
#include "model/waits/wait_rows.h"

namespace stalltrace::trace_export {
namespace {

/// The time that all slices of an export lie in; findings have windows without ends.
TimeRange whole(const Report& report, const TimeRange& asked) {
  const int64_t from = std::clamp<int64_t>(report.range.from_ns, 0, kLatestNs);
  const int64_t to = std::clamp<int64_t>(report.range.to_ns, from, kLatestNs);
  return {std::clamp(asked.from_ns, from, to), std::clamp(asked.to_ns, from, to)};
}

std::vector<TimeRange> ranges_of(const Report& report, const TraceOptions& options) {
  if (!options.findings_only) {
    return {options.range};
  }
  std::vector<TimeRange> ranges;
  for (const Finding& finding : report.findings) {
    ranges.push_back(
        {std::max(finding.window.from_ns, options.range.from_ns), std::min(finding.window.to_ns, options.range.to_ns)});
  }
  return ranges;
}

/// The time that a viewer shows as zero: not after the first event, where that is known.
int64_t zero_of(const std::vector<Node>& nodes, const Report& report, const CommonClock& clock) {
  int64_t zero = report.collectives > 0 ? report.range.from_ns : kLatestNs;
  for (const Node& node : nodes) {
    zero = std::min(zero, clock.at(node.node_id, node.started_ns));
  }
  return zero == kLatestNs ? std::max<int64_t>(report.range.from_ns, 0) : std::max<int64_t>(zero, 0);
}

}  // namespace

Exporter::Exporter(EventSource& source, const Report& report, std::span<const NodeClock> clocks,
                   const TraceOptions& options, TraceEncoder& encoder, Participants participants)
    : source_(source),
      report_(report),
      clocks_(clocks),
      clock_(clocks),
      encoder_(encoder),
      selection_(ranges_of(report, options), options.ranks, clock_),
      span_(whole(report, options.range)),
      most_stalled_calls_(options.most_stalled_calls),
      writer_(encoder, options.stopped),
      participants_(std::move(participants)) {}

Result<TraceSummary> Exporter::run() {
  encoder_.begin(zero_of(participants_.nodes(), report_, clock_));
  put_findings();
  ST_TRY(participants_.declare_ranks(selection_, writer_));
  ST_ASSIGN(const std::vector<Stack> stacks, source_.stacks());
  for (const Stack& stack : stacks) {
    stacks_[stack.stack_id] = stack.frames;
  }
  ST_TRY(put_stalls());
  put_processes();
  put_nodes();
  ST_TRY(each<Collective>([this](const Collective& row) { put_collective(row); }));
  ST_TRY(each<Collective>([this](const Collective& row) { put_launch(row); }));
  ST_TRY(each<Collective>([this](const Collective& row) { put_kernel(row); }));
  ST_TRY(each<ProxyStep>([this](const ProxyStep& row) { put(row); }));
  WaitRows waits([this](const WaitSpan& row, int64_t over_ns) { put_wait(row, over_ns); });
  ST_TRY(each<WaitSpan>([&](const WaitSpan& row) { waits.add(row); }));
  waits.finish();
  ST_TRY(each<PythonStack>([this](const PythonStack& row) { put(row); }));
  ST_TRY(each<PythonException>([this](const PythonException& row) { put(row); }));
  ST_TRY(each<LogLine>([this](const LogLine& row) { put(row); }));
  ST_TRY(each<KernelMessage>([this](const KernelMessage& row) { put(row); }));
  ST_TRY(each<NetSpan>([this](const NetSpan& row) { put(row); }));
  ST_TRY(each<TcpEvent>([this](const TcpEvent& row) { put(row); }));
  ST_TRY(each<TcpSample>([this](const TcpSample& row) { put(row); }));
  ST_TRY(each<PacketDrop>([this](const PacketDrop& row) { put(row); }));
  ST_TRY(each<HostSample>([this](const HostSample& row) { put(row); }));
  ST_TRY(each<PortCounter>([this](const PortCounter& row) { put(row); }));
  ST_TRY(encoder_.finish());
  TraceSummary summary = writer_.summary();
  summary.stalls_without_calls = stalls_without_calls();
  summary.absent_ranks = participants_.absent_ranks();
  return summary;
}

Result<TraceSummary> export_trace(EventSource& source, const Report& report, std::span<const NodeClock> clocks,
                                  const TraceOptions& options, TraceEncoder& encoder) {
  ST_ASSIGN(Participants participants, Participants::read(source));
  return Exporter(source, report, clocks, options, encoder, std::move(participants)).run();
}

}  // namespace stalltrace::trace_export
