// SPDX-License-Identifier: Apache-2.0
// Traces of torch.profiler as events: a file is a node, which has no calls.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "import/byte_stream.h"
#include "import/chrome_trace/coverage.h"
#include "import/chrome_trace/trace.h"
#include "import/evidence.h"
#include "import/file_node.h"
#include "import/nccl_log/log_text.h"
#include "import/read_files.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

constexpr std::string_view kFormat = "torch_profiler";
constexpr int32_t kMostOrdinals = 32;  // calls of one kind in a step that are distinguished

std::vector<TimeRange> times_of(const std::vector<Trace::Communication>& all) {
  std::vector<TimeRange> times;
  times.reserve(all.size());
  for (const Trace::Communication& one : all) {
    times.push_back(one.time);
  }
  return times;
}

/// The time that is measured: all steps, or else all that is in the trace.
TimeRange measured(const Trace& trace) {
  if (!trace.steps.empty()) {
    return {trace.steps.front().time.from_ns,
            std::max(trace.steps.back().time.to_ns, trace.steps.front().time.from_ns)};
  }
  TimeRange all{std::numeric_limits<int64_t>::max(), 0};
  const auto add = [&](const TimeRange& time) {
    all.from_ns = std::min(all.from_ns, time.from_ns);
    all.to_ns = std::max(all.to_ns, time.to_ns);
  };
  std::ranges::for_each(trace.compute, add);
  std::ranges::for_each(trace.copies, add);
  std::ranges::for_each(trace.communication, add, &Trace::Communication::time);
  return all.from_ns <= all.to_ns ? all : TimeRange{0, 0};
}

class Import {
 public:
  Import(EventSink& sink, const Note& note) : sink_(sink), note_(note) {}

  Status read(const std::string& path) {
    ST_ASSIGN(ByteStream bytes, ByteStream::open(path));
    const Trace trace = read_trace(std::move(bytes));
    if (trace.compute.empty() && trace.communication.empty()) {
      return fail(fmt::format("{}: no trace of torch.profiler: it has neither kernels nor operators{}", path,
                              trace.problem.empty() ? "" : fmt::format(" ({})", trace.problem)),
                  "give what export_chrome_trace or tensorboard_trace_handler wrote", ErrorKind::kCorrupt);
    }
    Node node = nodes_.make(path, kFormat);
    if (!trace.problem.empty()) {
      note_(fmt::format("{}: {}; what was before is kept", path, trace.problem));
      sink_.accept(Loss{node.node_id, "trace:damaged_file", 1});
    }
    for (const auto& [source, count] :
         {std::pair("trace:damaged_events", trace.damaged), std::pair("trace:events_not_kept", trace.not_kept)}) {
      if (count > 0) {
        sink_.accept(Loss{node.node_id, source, count});
      }
    }
    deliver(path, trace, node);
    return {};
  }

  void refuse(const std::string& path) {
    Node node = nodes_.make(path, kFormat);
    node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    sink_.accept(Loss{node.node_id, "trace:unreadable_file", 1});
    sink_.accept(std::move(node));
  }

  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  void deliver(const std::string& path, const Trace& trace, Node& node) {
    const TimeRange span = measured(trace);
    const int64_t duration_ns = span.to_ns - span.from_ns;
    // Without a time of day it ended no later than its file was written.
    const int64_t zero_ns =
        trace.zero_ns.value_or(std::max<int64_t>(node.started_ns - duration_ns - span.from_ns, -span.from_ns));
    const Coverage compute(trace.compute);
    const Coverage communication(times_of(trace.communication));
    const Coverage copies(trace.copies);
    const Coverage overlap = compute.both(communication);
    const Coverage busy = compute.either(communication).either(copies);
    TraceProfile profile{.node_id = node.node_id, .started_ns = zero_ns + span.from_ns, .duration_ns = duration_ns};
    profile.rank = trace.rank ? trace.rank : rank_in_path(path);
    profile.world_size = trace.world_size;
    profile.backend = trace.backend;
    profile.on_device = trace.on_device;
    profile.compute_ns = compute.covered_ns(span.from_ns, span.to_ns);
    profile.communication_ns = communication.covered_ns(span.from_ns, span.to_ns);
    profile.overlap_ns = overlap.covered_ns(span.from_ns, span.to_ns);
    profile.copy_ns = copies.covered_ns(span.from_ns, span.to_ns);
    profile.idle_ns = duration_ns - busy.covered_ns(span.from_ns, span.to_ns);
    profile.steps = static_cast<int64_t>(trace.steps.size());
    profile.kernels = trace.kernels;
    profile.file = path;
    node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
    if (!trace.zero_ns) {
      node.missing_evidence += fmt::format(" {}", kLacksTimes);
    }
    node.started_ns = profile.started_ns;
    node.ended_ns = profile.started_ns + duration_ns;
    sink_.accept(std::move(node));
    for (const Trace::Step& step : trace.steps) {
      const auto [begin_ns, end_ns] = step.time;
      sink_.accept(TraceStep{.node_id = profile.node_id,
                             .timestamp_ns = zero_ns + begin_ns,
                             .duration_ns = std::max<int64_t>(end_ns - begin_ns, 0),
                             .step = step.step,
                             .compute_ns = compute.covered_ns(begin_ns, end_ns),
                             .communication_ns = communication.covered_ns(begin_ns, end_ns),
                             .overlap_ns = overlap.covered_ns(begin_ns, end_ns),
                             .idle_ns = std::max<int64_t>(end_ns - begin_ns, 0) - busy.covered_ns(begin_ns, end_ns)});
    }
    deliver_collectives(profile.node_id, trace, compute, span);
    sink_.accept(std::move(profile));
    ++summary_.files;
    ++summary_.nodes;
    ++summary_.rows;
  }

  /// Calls without a size are distinguished by their order in their step: DDP sends its buckets in one order.
  void deliver_collectives(NodeId node, const Trace& trace, const Coverage& compute, const TimeRange& span) {
    std::map<std::pair<uint32_t, int32_t>, TraceCollective> rows;
    std::vector<TraceCollective*> ordered;
    std::vector<int32_t> in_step(trace.calls.size(), 0);
    auto next_step = trace.steps.begin();
    for (const Trace::Communication& one : trace.communication) {
      if (one.time.from_ns < span.from_ns || one.time.from_ns > span.to_ns) {
        continue;
      }
      while (next_step != trace.steps.end() && next_step->time.from_ns <= one.time.from_ns) {
        ++next_step;
        std::ranges::fill(in_step, 0);
      }
      const TraceCall& call = trace.calls[one.call];
      const bool by_order = !call.elements && !trace.steps.empty();
      const int32_t ordinal = by_order ? std::min(++in_step[one.call], kMostOrdinals) : 0;
      const auto [found, is_new] = rows.try_emplace({one.call, ordinal});
      TraceCollective& row = found->second;
      const int64_t duration_ns = one.time.to_ns - one.time.from_ns;
      if (is_new) {
        ordered.push_back(&row);
        row.node_id = node;
        row.number = static_cast<int32_t>(ordered.size());
        row.op = call.op;
        row.process_group = call.process_group;
        row.datatype = call.datatype;
        row.elements = call.elements;
        row.ordinal = by_order ? std::optional(ordinal) : std::nullopt;
        row.shortest_ns = duration_ns;
      }
      ++row.calls;
      row.total_ns = std::min(row.total_ns + duration_ns, kLongestSumNs);
      row.exposed_ns =
          std::min(row.exposed_ns + duration_ns - compute.covered_ns(one.time.from_ns, one.time.to_ns), kLongestSumNs);
      row.shortest_ns = std::min(row.shortest_ns, duration_ns);
      row.longest_ns = std::max(row.longest_ns, duration_ns);
    }
    for (TraceCollective* row : ordered) {
      sink_.accept(std::move(*row));
    }
  }

  static constexpr int64_t kLongestSumNs = int64_t{1} << 60;
  EventSink& sink_;
  const Note& note_;
  Summary summary_;
  FileNodes nodes_;
};

}  // namespace

Result<Summary> import_chrome_traces(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                     const Options& /*options*/) {
  Import import(sink, note);
  ST_TRY(read_files(import, paths, note, "no trace of torch.profiler"));
  return import.summary();
}

}  // namespace stalltrace::import
