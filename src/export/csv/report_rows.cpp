// SPDX-License-Identifier: Apache-2.0
#include "export/csv/report_rows.h"

#include <optional>
#include <string>
#include <vector>

namespace stalltrace::trace_export {
namespace {

Value text(std::string_view value) { return value.empty() ? Value() : Value(std::string(value)); }
template <typename T>
Value number(const std::optional<T>& value) {
  return value ? Value(static_cast<int64_t>(*value)) : Value();
}
Value endpoint(const std::optional<Endpoint>& value) { return value ? Value(format_endpoint(*value)) : Value(); }

}  // namespace

Status put_finding_rows(std::span<const Finding> findings, RowSink& sink) {
  ST_TRY(sink.columns({"finding_id", "cause", "severity", "confidence", "culprit_node", "culprit_rank", "culprit_pid",
                       "src_rank", "dst_rank", "src", "dst", "comm_id_hash", "op", "collectives_affected", "stall_ms",
                       "from_ns", "to_ns", "summary", "remedy"}));
  int64_t id = 0;
  for (const Finding& finding : findings) {
    const Culprit culprit = finding.culprit.value_or(Culprit());
    const LinkEndpoints link = finding.link.value_or(LinkEndpoints());
    const TimeRange all;
    const std::vector<Value> row{
        ++id,
        text(to_text(finding.cause)),
        text(to_text(finding.severity)),
        finding.confidence,
        text(culprit.node),
        number(culprit.rank),
        culprit.pid != 0 ? Value(int64_t{culprit.pid}) : Value(),
        number(link.src_rank),
        number(link.dst_rank),
        endpoint(link.src),
        endpoint(link.dst),
        finding.comm_id_hash != 0 ? Value(static_cast<int64_t>(finding.comm_id_hash)) : Value(),
        text(to_text(finding.op)),
        finding.collectives_affected,
        finding.stall_ms,
        finding.window.from_ns != all.from_ns ? Value(finding.window.from_ns) : Value(),
        finding.window.to_ns != all.to_ns ? Value(finding.window.to_ns) : Value(),
        text(finding.summary),
        text(finding.remedy)};
    ST_TRY(sink.row(row));
  }
  return {};
}

Status put_clock_rows(std::span<const NodeClock> clocks, RowSink& sink) {
  ST_TRY(sink.columns({"node_id", "moved_by_ns", "known_within_ns", "drift_ppm", "drift_at_ns", "known_by"}));
  for (const NodeClock& clock : clocks) {
    const bool drifts = clock.drift.rate != 0;
    const std::vector<Value> row{int64_t{clock.node_id},
                                 clock.shift_ns,
                                 number(clock.error_ns),
                                 drifts ? Value(clock.drift.rate * 1e6) : Value(),
                                 drifts ? Value(clock.drift.at_ns) : Value(),
                                 text(to_text(clock.source))};
    ST_TRY(sink.row(row));
  }
  return {};
}

}  // namespace stalltrace::trace_export
