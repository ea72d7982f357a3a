// SPDX-License-Identifier: Apache-2.0
// Hosts: the ends of their processes, their clocks and losses, their counters.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "base/text.h"
#include "export/rows/exporter.h"

namespace stalltrace::trace_export {

/// The ends of processes.
void Exporter::put_processes() {
  const auto name = [] { return std::string("process"); };
  for (const Process& process : participants_.processes()) {
    const int64_t time = process.exit_ns ? at(process.node_id, *process.exit_ns) : -1;
    const TrackId parent =
        time >= 0 && selection_.has(time, time) ? participants_.process(process.node_id, process.pid) : kNoTrack;
    if (parent == kNoTrack) {
      continue;
    }
    notes_.clear()
        .add("exit_code", process.exit_code)
        .add("exit_signal", process.exit_signal)
        .add("oom_killed", process.oom_killed)
        .unique("exe", process.exe)
        .unique("command", process.cmdline);
    writer_.instant({parent, RowKind::kProcess, 0, name},
                    {.category = "process", .name = "exit", .time_ns = time, .annotations = notes_});
  }
}

/// How each node's clock was moved, and what was lost on it.
void Exporter::put_nodes() {
  const auto clock_name = [] { return std::string("clock"); };
  for (const NodeClock& clock : clocks_) {
    const TrackId parent = participants_.node(clock.node_id);
    notes_.clear().add("moved_by_ns", clock.shift_ns);
    if (clock.drift.rate != 0) {
      notes_.add("drift_ppm", clock.drift.rate * 1e6).add("drift_at_ns", clock.drift.at_ns);
    }
    clock.error_ns ? notes_.add("known_within_ns", *clock.error_ns)
                   : notes_.add("problem", std::string_view("nothing bounds its distance from the others' clocks"));
    if (clock.source != ClockSource::kUnknown) {
      notes_.add("known_by", to_text(clock.source));
    }
    if (parent != kNoTrack) {
      writer_.instant({parent, RowKind::kClock, 0, clock_name},
                      {.category = "clock", .name = "clock", .time_ns = span_.from_ns, .annotations = notes_});
    }
  }
  const auto losses_name = [] { return std::string("losses"); };
  for (const Loss& loss : report_.losses) {
    const TrackId parent = participants_.node(loss.node_id);
    if (parent != kNoTrack && loss.count > 0) {
      name_ = "lost: " + loss.source;
      writer_.instant({parent, RowKind::kLosses, 0, losses_name},
                      {.category = "loss",
                       .name = name_,
                       .time_ns = span_.to_ns,
                       .annotations = notes_.clear().add("count", loss.count)});
    }
  }
}

void Exporter::put(const HostSample& row) {
  const TrackId parent = participants_.node(row.node_id);
  if (parent == kNoTrack) {
    return;
  }
  const auto name = [&] { return row.detail.empty() ? row.name : fmt::format("{} {}", row.name, row.detail); };
  const char* unit = row.name.ends_with("_us") ? "us" : row.name.ends_with("_bytes") ? "bytes" : "count";
  const uint64_t which = splitmix64_text(row.detail, splitmix64_text(row.name));
  writer_.counter({parent, RowKind::kCounter, which, name}, unit, at(row.node_id, row.timestamp_ns), row.value);
}

void Exporter::put(const PortCounter& row) {
  const TrackId parent = participants_.node(row.node_id);
  if (parent == kNoTrack) {
    return;
  }
  const auto name = [&] { return fmt::format("{} port {} {}", row.device, row.port, row.name); };
  const uint64_t which =
      splitmix64_fold(splitmix64_text(row.device, splitmix64_text(row.name)), static_cast<uint64_t>(row.port));
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  writer_.counter({parent, RowKind::kCounter, which, name}, "as sysfs has it", at(row.node_id, row.timestamp_ns),
                  static_cast<int64_t>(std::min(row.value, kMost)));
}

}  // namespace stalltrace::trace_export
