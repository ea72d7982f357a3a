// SPDX-License-Identifier: Apache-2.0
// The newest events of a running trace as an EventSource, in bounded memory however long the trace lasts: what is older
// than the window goes, and so does what exceeds a table's bound, oldest first. What surrounds the begin of a hang can
// be held for as long as the hang lasts. Single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model/source.h"

namespace stalltrace::analysis {

struct WindowLimits {
  int64_t length_ns = 30 * kNsPerSecond;
  size_t rows = 50'000;   // of each streamed table
  size_t things = 8'192;  // of each small one: processes, communicators, connections
};

class LiveWindow final : public EventSource, public EventSink {
 public:
  explicit LiveWindow(WindowLimits limits = {}) : limits_(limits) {}

  /// Tables that no verdict reads are not kept.
  void accept(Event event) override;
  /// The trace has come so far: forgets what lies before the window. Nodes count as observed until then.
  void advance(int64_t now_ns);
  /// Keeps what lies in these though the window has passed it.
  void hold(std::vector<TimeRange> ranges) { held_ = std::move(ranges); }

  [[nodiscard]] int64_t from_ns() const { return now_ns_ - limits_.length_ns; }
  [[nodiscard]] bool has_collectives() const { return !collectives_.empty(); }
  /// Rows of all tables.
  [[nodiscard]] size_t rows() const;

  Result<std::vector<Node>> nodes() override;
  Result<std::vector<Process>> processes() override { return values(processes_); }
  Result<std::vector<Communicator>> communicators() override { return values(communicators_); }
  Result<std::vector<Connection>> connections() override { return values(connections_); }
  Result<std::vector<Stack>> stacks() override { return values(stacks_); }
  Result<std::vector<Loss>> losses() override { return values(losses_); }
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
  template <typename Map>
  static std::vector<typename Map::mapped_type> values(const Map& map) {
    std::vector<typename Map::mapped_type> all;
    all.reserve(map.size());
    for (const auto& [key, row] : map) {
      all.push_back(row);
    }
    return all;
  }
  void upsert(Collective row);
  [[nodiscard]] bool is_held(int64_t time_ns) const;
  void forget_things();
  template <typename F>
  void each_stream(F&& f) {
    f(collectives_);
    f(tcp_events_);
    f(tcp_samples_);
    f(wait_spans_);
    f(proxy_steps_);
    f(packet_drops_);
    f(host_samples_);
    f(port_counters_);
  }

  WindowLimits limits_;
  int64_t now_ns_ = 0;
  int64_t swept_ns_ = 0;
  std::vector<TimeRange> held_;
  std::map<NodeId, Node> nodes_;
  std::map<std::tuple<NodeId, int32_t, int64_t>, Process> processes_;                     // by node, pid, start
  std::map<std::tuple<NodeId, int32_t, uint64_t, int64_t>, Communicator> communicators_;  // and pointer, creation
  std::map<std::pair<NodeId, uint64_t>, Connection> connections_;                         // by node, cookie
  std::map<std::pair<NodeId, std::string>, Loss> losses_;
  std::map<int64_t, Stack> stacks_;     // by id: a program calls from few places, they stay
  std::deque<Collective> collectives_;  // by id: ids are given in order of entry
  std::deque<TcpEvent> tcp_events_;
  std::deque<TcpSample> tcp_samples_;
  std::deque<WaitSpan> wait_spans_;
  std::deque<ProxyStep> proxy_steps_;
  std::deque<PacketDrop> packet_drops_;
  std::deque<HostSample> host_samples_;
  std::deque<PortCounter> port_counters_;
};

}  // namespace stalltrace::analysis
