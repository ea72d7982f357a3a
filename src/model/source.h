// SPDX-License-Identifier: Apache-2.0
// Where analysis takes events from. A recording, several, a live window and a test's vectors all look the
// same, so that every verdict can be replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/events.h"

namespace stalltrace {

/// Half-open: [from_ns, to_ns).
struct TimeRange {
  int64_t from_ns = std::numeric_limits<int64_t>::min();
  int64_t to_ns = std::numeric_limits<int64_t>::max();

  [[nodiscard]] bool contains(int64_t time_ns) const { return time_ns >= from_ns && time_ns < to_ns; }
};

/// Read access to events. Small tables come whole; large ones are streamed in time order within a range
/// (by timestamp_ns; an event that began before the range but reaches into it is included for spans and
/// collectives). A visitor's reference is valid during its call only. Not thread-safe.
class EventSource {
 public:
  virtual ~EventSource() = default;

  template <typename T>
  using Visitor = std::function<void(const T&)>;

  virtual Result<std::vector<Node>> nodes() = 0;
  virtual Result<std::vector<Process>> processes() = 0;
  virtual Result<std::vector<Communicator>> communicators() = 0;
  virtual Result<std::vector<Connection>> connections() = 0;
  virtual Result<std::vector<Stack>> stacks() = 0;
  virtual Result<std::vector<Loss>> losses() = 0;

  virtual Status collectives(TimeRange range, const Visitor<Collective>& visit) = 0;
  virtual Status tcp_events(TimeRange range, const Visitor<TcpEvent>& visit) = 0;
  virtual Status tcp_samples(TimeRange range, const Visitor<TcpSample>& visit) = 0;
  virtual Status net_spans(TimeRange range, const Visitor<NetSpan>& visit) = 0;
  virtual Status wait_spans(TimeRange range, const Visitor<WaitSpan>& visit) = 0;
  virtual Status proxy_steps(TimeRange range, const Visitor<ProxyStep>& visit) = 0;
  virtual Status packet_drops(TimeRange range, const Visitor<PacketDrop>& visit) = 0;
  virtual Status host_samples(TimeRange range, const Visitor<HostSample>& visit) = 0;
  virtual Status port_counters(TimeRange range, const Visitor<PortCounter>& visit) = 0;
};

/// A source over vectors: tests, live windows, imports. Sorts nothing: fill it in time order.
class MemorySource final : public EventSource, public EventSink {
 public:
  /// Upserts what has a key (see events.h), appends the rest.
  void accept(Event event) override;

  Result<std::vector<Node>> nodes() override { return nodes_; }
  Result<std::vector<Process>> processes() override { return processes_; }
  Result<std::vector<Communicator>> communicators() override { return communicators_; }
  Result<std::vector<Connection>> connections() override { return connections_; }
  Result<std::vector<Stack>> stacks() override { return stacks_; }
  Result<std::vector<Loss>> losses() override { return losses_; }
  Status collectives(TimeRange range, const Visitor<Collective>& visit) override;
  Status tcp_events(TimeRange range, const Visitor<TcpEvent>& visit) override;
  Status tcp_samples(TimeRange range, const Visitor<TcpSample>& visit) override;
  Status net_spans(TimeRange range, const Visitor<NetSpan>& visit) override;
  Status wait_spans(TimeRange range, const Visitor<WaitSpan>& visit) override;
  Status proxy_steps(TimeRange range, const Visitor<ProxyStep>& visit) override;
  Status packet_drops(TimeRange range, const Visitor<PacketDrop>& visit) override;
  Status host_samples(TimeRange range, const Visitor<HostSample>& visit) override;
  Status port_counters(TimeRange range, const Visitor<PortCounter>& visit) override;

 private:
  std::vector<Node> nodes_;
  std::vector<Process> processes_;
  std::vector<Communicator> communicators_;
  std::vector<Connection> connections_;
  std::vector<Loss> losses_;
  std::vector<Collective> collectives_;
  std::unordered_map<EventId, size_t> collective_index_;
  std::vector<TcpEvent> tcp_events_;
  std::vector<TcpSample> tcp_samples_;
  std::vector<NetSpan> net_spans_;
  std::vector<WaitSpan> wait_spans_;
  std::vector<ProxyStep> proxy_steps_;
  std::vector<PacketDrop> packet_drops_;
  std::vector<HostSample> host_samples_;
  std::vector<PortCounter> port_counters_;
  std::vector<Stack> stacks_;
};

}  // namespace stalltrace
