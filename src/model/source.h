// SPDX-License-Identifier: Apache-2.0
// The source of events for analysis. One recording, several recordings, a live window and a test's vectors deliver the
// same rows for the same range, so that every verdict can be replayed.
#pragma once

#include <functional>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/events.h"
#include "model/time_range.h"

namespace stalltrace {

/// Read access to events. State types are read completely. Streamed types come in order of timestamp_ns (equal times in
/// the order of recording); a range selects all rows that belong to it (belongs_to): those that began before its end
/// and had not ended before its start. Only EventTraits<T>::end_ns defines the end of a row: an open row has none; a
/// collective whose completion was not observed ends with its launch; a sample is a point in time.
///
/// All calls must come from one thread at a time. A visitor is called on that thread, during the call; its row is valid
/// until it returns. It must not call the source. Every call sees the current state: with a running trace, a later call
/// can return rows that an earlier one did not. An error means that the result is incomplete; some rows may have been
/// visited.
class EventSource {
 public:
  virtual ~EventSource() = default;

  template <typename T>
  using Visitor = std::function<void(const T&)>;

  template <StateType T>
  Result<std::vector<T>> all() {
    std::vector<T> rows;
    ST_TRY(read_state(&rows));
    return rows;
  }
  template <StreamedType T>
  Status stream(TimeRange range, const Visitor<T>& visit) {
    return read_stream(range, &visit);
  }

  Result<std::vector<Node>> nodes() { return all<Node>(); }
  Result<std::vector<Process>> processes() { return all<Process>(); }
  Result<std::vector<Communicator>> communicators() { return all<Communicator>(); }
  Result<std::vector<Connection>> connections() { return all<Connection>(); }
  Result<std::vector<Competitor>> competitors() { return all<Competitor>(); }
  Result<std::vector<GraphUse>> graph_uses() { return all<GraphUse>(); }
  Result<std::vector<Stack>> stacks() { return all<Stack>(); }
  Result<std::vector<BenchmarkRun>> benchmark_runs() { return all<BenchmarkRun>(); }
  Result<std::vector<TraceProfile>> trace_profiles() { return all<TraceProfile>(); }
  Result<std::vector<TraceCollective>> trace_collectives() { return all<TraceCollective>(); }
  Result<std::vector<PacketCapture>> packet_captures() { return all<PacketCapture>(); }
  Result<std::vector<PacketFlow>> packet_flows() { return all<PacketFlow>(); }
  Result<std::vector<Loss>> losses() { return all<Loss>(); }

  Status collectives(TimeRange range, const Visitor<Collective>& visit) { return stream(range, visit); }
  Status tcp_events(TimeRange range, const Visitor<TcpEvent>& visit) { return stream(range, visit); }
  Status tcp_samples(TimeRange range, const Visitor<TcpSample>& visit) { return stream(range, visit); }
  Status net_spans(TimeRange range, const Visitor<NetSpan>& visit) { return stream(range, visit); }
  Status wait_spans(TimeRange range, const Visitor<WaitSpan>& visit) { return stream(range, visit); }
  Status proxy_steps(TimeRange range, const Visitor<ProxyStep>& visit) { return stream(range, visit); }
  Status python_stacks(TimeRange range, const Visitor<PythonStack>& visit) { return stream(range, visit); }
  Status python_exceptions(TimeRange range, const Visitor<PythonException>& visit) { return stream(range, visit); }
  Status kernel_messages(TimeRange range, const Visitor<KernelMessage>& visit) { return stream(range, visit); }
  Status benchmark_results(TimeRange range, const Visitor<BenchmarkResult>& visit) { return stream(range, visit); }
  Status trace_steps(TimeRange range, const Visitor<TraceStep>& visit) { return stream(range, visit); }
  Status packet_events(TimeRange range, const Visitor<PacketEvent>& visit) { return stream(range, visit); }
  Status log_lines(TimeRange range, const Visitor<LogLine>& visit) { return stream(range, visit); }
  Status packet_drops(TimeRange range, const Visitor<PacketDrop>& visit) { return stream(range, visit); }
  Status host_samples(TimeRange range, const Visitor<HostSample>& visit) { return stream(range, visit); }
  Status port_counters(TimeRange range, const Visitor<PortCounter>& visit) { return stream(range, visit); }
  Status clock_readings(TimeRange range, const Visitor<ClockReading>& visit) { return stream(range, visit); }

  /// For implementations and for sources that forward to another one; callers use the typed functions above. The
  /// variants have an alternative for each type of the list, never null: std::visit with a template handles all of
  /// them.
  template <typename T>
  using RowsOf = std::vector<T>*;
  template <typename T>
  using VisitorOf = const Visitor<T>*;
  using AnyRows = ForTypes<std::variant, RowsOf, kStateTypes>;
  using AnyVisitor = ForTypes<std::variant, VisitorOf, kStreamedTypes>;
  /// Appends all rows of one state type.
  virtual Status read_state(AnyRows rows) = 0;
  /// Visits the rows of one streamed type that belong to the range.
  virtual Status read_stream(TimeRange range, AnyVisitor visitor) = 0;
};

}  // namespace stalltrace
