// SPDX-License-Identifier: Apache-2.0
// Calls, kernels, NCCL's steps, waits, Python stacks and log lines: what a rank's process did.
#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "export/rows/exporter.h"

namespace stalltrace::trace_export {
namespace {}  // namespace

/// From arrival to completion. Without an end while it is open; an instant where no end is reported.
void Exporter::put_collective(const Collective& row) {
  const TrackId parent = participants_.process(row.node_id, row.pid);
  if (parent == kNoTrack) {
    return;
  }
  const bool nccl = row.library == Library::kNccl || row.library == Library::kRccl;
  notes_.clear().unique("id", event_name(row.event_id)).add("seq", row.seq).add("completion", to_text(row.completion));
  if (row.bytes != 0) {
    notes_.add("bytes", row.bytes);
  }
  if (row.count) {
    const std::string_view known = nccl && row.datatype ? nccl_datatype_name(*row.datatype) : std::string_view();
    notes_.add("count", *row.count);
    known.empty() ? notes_.add("datatype", row.datatype) : notes_.add("datatype", known);
  }
  if (nccl && row.reduce_op) {
    notes_.add("reduce_op", nccl_reduce_op_name(*row.reduce_op));
  }
  notes_.add("root", row.root).add("peer", row.peer);
  if (row.return_code && *row.return_code != 0) {
    notes_.add("return_code", *row.return_code);
  }
  notes_.add("stack", frames_of(row.stack_id));
  const auto name = [&] {
    const std::string ranks = row.nranks ? fmt::format(" ({} ranks)", *row.nranks) : "";
    return row.comm_id_hash == 0 ? fmt::format("collectives of unknown communicator {:#x}{}", row.comm_ptr, ranks)
                                 : fmt::format("collectives of {}{}", format_hash(row.comm_id_hash), ranks);
  };
  const uint64_t which = row.comm_id_hash == 0 ? splitmix64_mix(row.comm_ptr + 1) : row.comm_id_hash;
  const TrackWriter::Row where{parent, RowKind::kCollectives, which, name};
  const int64_t begin = at(row.node_id, row.timestamp_ns);
  const bool captured = row.completion == Completion::kCaptured;
  if (captured || row.completion == Completion::kUnobserved) {
    writer_.instant(where, {.category = captured ? "captured" : "unobserved",
                            .name = to_text(row.op),
                            .time_ns = begin,
                            .annotations = notes_});
    return;
  }
  writer_.slice(where, {.category = "collective",
                        .name = to_text(row.op),
                        .begin_ns = begin,
                        .end_ns = end_of(begin, row.duration_ns),
                        .annotations = notes_,
                        .flows_in = flows_->flows_to(row.event_id)});
}

/// The call on the CPU alone.
void Exporter::put_launch(const Collective& row) {
  const TrackId parent = row.launch_ns ? participants_.process(row.node_id, row.pid) : kNoTrack;
  if (parent == kNoTrack) {
    return;
  }
  const auto name = [&] { return fmt::format("calls on the CPU, thread {}", row.tid); };
  const int64_t begin = at(row.node_id, row.called_ns != 0 ? row.called_ns : row.timestamp_ns);
  writer_.slice({parent, RowKind::kLaunches, static_cast<uint64_t>(row.tid), name},
                {.category = "launch",
                 .name = to_text(row.op),
                 .begin_ns = begin,
                 .end_ns = end_of(begin, row.launch_ns),
                 .annotations = notes_.clear().add("seq", row.seq)});
}

/// The device's part.
void Exporter::put_kernel(const Collective& row) {
  const TrackId parent = row.kernel_start_ns ? participants_.process(row.node_id, row.pid) : kNoTrack;
  if (parent == kNoTrack) {
    return;
  }
  const auto name = [&] { return fmt::format("GPU kernels, stream {:#x}", row.stream); };
  const std::optional<int64_t> end =
      row.kernel_end_ns ? std::optional(at(row.node_id, *row.kernel_end_ns)) : std::nullopt;
  writer_.slice({parent, RowKind::kKernels, row.stream, name}, {.category = "kernel",
                                                                .name = to_text(row.op),
                                                                .begin_ns = at(row.node_id, *row.kernel_start_ns),
                                                                .end_ns = end,
                                                                .annotations = notes_.clear().add("seq", row.seq)});
}

void Exporter::put(const ProxyStep& row) {
  const TrackId parent = participants_.process(row.node_id, row.pid);
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear()
      .add("channel", row.channel)
      .add("step", row.step)
      .add("steps", row.steps)
      .add("bytes", row.bytes)
      .add("gpu_wait_ns", row.gpu_wait_ns)
      .add("peer_wait_ns", row.peer_wait_ns)
      .add("network_wait_ns", row.network_wait_ns)
      .add("waits_for", to_text(row.waits_for));
  if (row.collective_id != 0) {
    notes_.unique("collective", event_name(row.collective_id));
  }
  const auto name = [&] {
    return fmt::format(
        "NCCL proxy: {} {}", row.is_send ? "to" : "from",
        row.peer ? fmt::format("rank {} of {}", *row.peer, format_hash(row.comm_id_hash)) : "unknown rank");
  };
  const uint64_t which = splitmix64_fold(
      row.comm_id_hash, static_cast<uint64_t>(row.peer.value_or(-1)) << 1U | static_cast<uint64_t>(row.is_send));
  const int64_t begin = at(row.node_id, row.timestamp_ns);
  writer_.slice({parent, RowKind::kProxySteps, which, name}, {.category = "proxy_step",
                                                              .name = row.is_send ? "send" : "receive",
                                                              .begin_ns = begin,
                                                              .end_ns = end_of(begin, row.duration_ns),
                                                              .annotations = notes_});
}

/// A wait lasts as long as it was observed, but not beyond `over_ns`, on its node's clock.
void Exporter::put_wait(const WaitSpan& row, int64_t over_ns) {
  const int64_t begin = at(row.node_id, row.timestamp_ns);
  const int64_t observed = end_after(begin, row.window_ns);
  const int64_t end = over_ns == kForever ? observed : std::min(observed, at(row.node_id, over_ns));
  if (row.open && !selection_.has(begin, end)) {
    return;  // only as something without an end does it overlap the range
  }
  const TrackId parent = participants_.process(row.node_id, row.pid);
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear().add("waited_ns", row.waited_ns).add("occasions", row.count);
  if (row.by_pid != 0 || !row.by_name.empty()) {
    notes_.add("ran_instead", row.by_name).add("ran_instead_pid", row.by_pid).add("ran_instead_ns", row.by_waited_ns);
  }
  const auto name = [&] {
    return fmt::format("thread {}{}{}", row.tid, row.thread_name.empty() ? "" : " ", row.thread_name);
  };
  if (row.open) {
    notes_.add("open", true);
  }
  const bool whole_window = row.waited_ns >= row.window_ns;
  name_ = whole_window ? std::string(to_text(row.kind)) : fmt::format("{}, partly", to_text(row.kind));
  writer_.slice({parent, RowKind::kWaits, static_cast<uint64_t>(row.tid), name},
                {.category = "wait", .name = name_, .begin_ns = begin, .end_ns = end, .annotations = notes_});
}

void Exporter::put(const PythonStack& row) {
  const TrackId parent = participants_.process(row.node_id, row.rank_pid);
  if (parent == kNoTrack) {
    return;
  }
  const std::string_view frames = frames_of(row.stack_id);
  const std::string_view innermost = frames.substr(0, frames.find('\n'));
  notes_.clear()
      .add("activity", row.activity)
      .add("state", row.state)
      .add("stack", frames)
      .add("problem", row.problem)
      .add("pid", row.pid);
  if (row.collecting) {
    notes_.add("collects_garbage", true);
  }
  const auto name = [] { return std::string("Python"); };
  writer_.instant({parent, RowKind::kPython, 0, name}, {.category = "python",
                                                        .name = innermost.empty() ? "no frames" : innermost,
                                                        .time_ns = at(row.node_id, row.timestamp_ns),
                                                        .annotations = notes_});
}

void Exporter::put(const PythonException& row) {
  const TrackId parent = participants_.process(row.node_id, row.pid);
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear().add("stack", frames_of(row.stack_id)).add("pid", row.pid).add("tid", row.tid).add("depth", row.depth);
  const auto name = [] { return std::string("Python"); };
  writer_.instant(
      {parent, RowKind::kPython, 0, name},
      {.category = "python", .name = row.type, .time_ns = at(row.node_id, row.timestamp_ns), .annotations = notes_});
}

void Exporter::put(const LogLine& row) {
  const TrackId parent = participants_.process(row.node_id, row.pid);
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear().unique("text", row.text).add("file", row.file);
  if (row.line != 0) {
    notes_.add("line", row.line);
  }
  const auto name = [] { return std::string("log"); };
  writer_.instant({parent, RowKind::kLog, 0, name}, {.category = "log",
                                                     .name = to_text(row.kind),
                                                     .time_ns = at(row.node_id, row.timestamp_ns),
                                                     .annotations = notes_});
}

void Exporter::put(const KernelMessage& row) {
  const TrackId parent = participants_.process(row.node_id, 0);  // a message may name a process that is no rank
  if (parent == kNoTrack) {
    return;
  }
  notes_.clear().unique("text", row.text).add("device", row.device).add("file", row.file);
  if (row.pid != 0) {
    notes_.add("pid", row.pid);
  }
  const auto name = [] { return std::string("kernel log"); };
  writer_.instant({parent, RowKind::kLog, 1, name}, {.category = "log",
                                                     .name = to_text(row.kind),
                                                     .time_ns = at(row.node_id, row.timestamp_ns),
                                                     .annotations = notes_});
}

}  // namespace stalltrace::trace_export
