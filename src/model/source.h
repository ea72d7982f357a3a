// SPDX-License-Identifier: Apache-2.0
// Where analysis takes events from. A recording, several, a live window and a test's vectors deliver the same rows for
// the same range, so that every verdict can be replayed.
#pragma once

#include <functional>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/events.h"
#include "model/time_range.h"

namespace stalltrace {

/// Read access to events. State types come whole. Streamed types come in the order of timestamp_ns (rows of equal time
/// in the order in which they were recorded), and of a range all rows that belong to it (belongs_to): those that began
/// before its end and had not ended before its begin. When a row ends is said once, by EventTraits<T>::end_ns: an open
/// row never does; a collective whose completion was not observed does with its launch; a sample is a moment.
///
/// All calls from one thread at a time. A visitor is called on that thread, during the call; the row that it is given
/// is valid until it returns. It may not call the source. Every call sees the state of its own moment: rows of a trace
/// that goes on can be in a later call's answer and not in an earlier one's.
/// An error means that the answer is incomplete; some rows may have been visited.
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
  Result<std::vector<Stack>> stacks() { return all<Stack>(); }
  Result<std::vector<Loss>> losses() { return all<Loss>(); }

  Status collectives(TimeRange range, const Visitor<Collective>& visit) { return stream(range, visit); }
  Status tcp_events(TimeRange range, const Visitor<TcpEvent>& visit) { return stream(range, visit); }
  Status tcp_samples(TimeRange range, const Visitor<TcpSample>& visit) { return stream(range, visit); }
  Status net_spans(TimeRange range, const Visitor<NetSpan>& visit) { return stream(range, visit); }
  Status wait_spans(TimeRange range, const Visitor<WaitSpan>& visit) { return stream(range, visit); }
  Status proxy_steps(TimeRange range, const Visitor<ProxyStep>& visit) { return stream(range, visit); }
  Status python_stacks(TimeRange range, const Visitor<PythonStack>& visit) { return stream(range, visit); }
  Status packet_drops(TimeRange range, const Visitor<PacketDrop>& visit) { return stream(range, visit); }
  Status host_samples(TimeRange range, const Visitor<HostSample>& visit) { return stream(range, visit); }
  Status port_counters(TimeRange range, const Visitor<PortCounter>& visit) { return stream(range, visit); }

  /// For those who implement or forward a source; callers use the typed functions above. The variants have an
  /// alternative for each type of the list, never null: std::visit with a template serves all of them.
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
