// SPDX-License-Identifier: Apache-2.0
// One export: its state, and where the rows of each table go. Each family of tables is a file of this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "export/trace_export.h"
#include "export/tracks/common_clock.h"
#include "export/tracks/finding_flows.h"
#include "export/tracks/notes.h"
#include "export/tracks/participants.h"
#include "export/tracks/selection.h"
#include "export/tracks/track_writer.h"

namespace stalltrace::trace_export {

/// Borrows everything it is given but the participants. One thread; `source`, `encoder` and TraceOptions::stopped are
/// called on it.
class Exporter {
 public:
  Exporter(EventSource& source, const Report& report, std::span<const NodeClock> clocks, const TraceOptions& options,
           TraceEncoder& encoder, Participants participants);

  /// Called once. Reads each table in time order, collectives several times. Ends with the first error: of the source,
  /// of the encoder's sink, kInterrupted where TraceOptions::stopped asks for it, kNotFound where none of the chosen
  /// ranks is recorded. What was written until then is no complete trace: encoder.finish() was not called.
  Result<TraceSummary> run();

 private:
  template <StreamedType T>
  Status each(const EventSource::Visitor<T>& visit) {
    ST_TRY(writer_.status());
    ST_TRY(selection_.each<T>(source_, visit));
    return writer_.status();
  }

  [[nodiscard]] int64_t at(NodeId node, int64_t time_ns) const { return clock_.at(node, time_ns); }
  /// The end of an interval of a node; none where it has no duration.
  [[nodiscard]] static std::optional<int64_t> end_of(int64_t begin_ns, const std::optional<int64_t>& duration_ns) {
    return duration_ns ? std::optional(end_after(begin_ns, *duration_ns)) : std::nullopt;
  }
  std::string_view frames_of(int64_t stack_id) const {
    const auto found = stacks_.find(stack_id);
    return found == stacks_.end() ? std::string_view() : std::string_view(found->second);
  }
  /// "node3:1535", as explain --instance takes it.
  std::string_view event_name(EventId id) {
    name_ = fmt::format("{}:{}", participants_.node_name(node_of(id)), number_of(id));
    return name_;
  }

  [[nodiscard]] uint64_t stalls_without_calls() const;
  void put_findings();
  Status put_stalls();
  void put_processes();
  void put_nodes();
  void put_collective(const Collective& row);
  void put_launch(const Collective& row);
  void put_kernel(const Collective& row);
  void put(const ProxyStep& row);
  void put_wait(const WaitSpan& row, int64_t over_ns);
  void put(const PythonStack& row);
  void put(const PythonException& row);
  void put(const LogLine& row);
  void put(const KernelMessage& row);
  void put(const NetSpan& row);
  void put(const TcpEvent& row);
  void put(const TcpSample& row);
  void put(const PacketDrop& row);
  void put(const HostSample& row);
  void put(const PortCounter& row);

  TrackId connection(NodeId node, uint64_t cookie, int32_t pid, const Endpoint& from, const Endpoint& to);

  EventSource& source_;
  const Report& report_;
  std::span<const NodeClock> clocks_;
  CommonClock clock_;
  TraceEncoder& encoder_;
  Selection selection_;
  TimeRange span_;
  size_t most_stalled_calls_;
  TrackWriter writer_;
  Participants participants_;
  std::optional<FindingFlows> flows_;
  std::unordered_map<int64_t, std::string> stacks_;
  TrackId findings_ = kNoTrack;
  Notes notes_;
  std::string name_;
};

}  // namespace stalltrace::trace_export
