// SPDX-License-Identifier: Apache-2.0
// One communicator may bear two names: its id's hash, where probes saw the id, and NCCL's own hash, where only the
// profiler plugin did. Nodes of both kinds record one job: what one of them knows of both names gives all rows the
// first.
#pragma once

#include <unordered_map>

#include "model/source.h"

namespace stalltrace::analysis {

class CommonNames final : public EventSource {
 public:
  /// `source` outlives the object.
  static Result<CommonNames> read(EventSource& source);

  /// False: no row would change.
  [[nodiscard]] bool needed() const { return !names_.empty(); }
  /// Whose rows to read.
  EventSource& source() { return needed() ? static_cast<EventSource&>(*this) : source_; }

  Result<std::vector<Node>> nodes() override { return source_.nodes(); }
  Result<std::vector<Process>> processes() override { return source_.processes(); }
  Result<std::vector<Communicator>> communicators() override;
  Result<std::vector<Connection>> connections() override;
  Result<std::vector<Stack>> stacks() override { return source_.stacks(); }
  Result<std::vector<Loss>> losses() override { return source_.losses(); }
  Status collectives(TimeRange range, const Visitor<Collective>& visit) override;
  Status tcp_events(TimeRange range, const Visitor<TcpEvent>& visit) override {
    return source_.tcp_events(range, visit);
  }
  Status tcp_samples(TimeRange range, const Visitor<TcpSample>& visit) override {
    return source_.tcp_samples(range, visit);
  }
  Status net_spans(TimeRange range, const Visitor<NetSpan>& visit) override { return source_.net_spans(range, visit); }
  Status wait_spans(TimeRange range, const Visitor<WaitSpan>& visit) override {
    return source_.wait_spans(range, visit);
  }
  Status proxy_steps(TimeRange range, const Visitor<ProxyStep>& visit) override;
  Status packet_drops(TimeRange range, const Visitor<PacketDrop>& visit) override {
    return source_.packet_drops(range, visit);
  }
  Status host_samples(TimeRange range, const Visitor<HostSample>& visit) override {
    return source_.host_samples(range, visit);
  }
  Status port_counters(TimeRange range, const Visitor<PortCounter>& visit) override {
    return source_.port_counters(range, visit);
  }

 private:
  explicit CommonNames(EventSource& source) : source_(source) {}
  void rename(CommHash& hash) const;

  EventSource& source_;
  std::unordered_map<CommHash, CommHash> names_;  // NCCL's hash → the id's, where rows are named by both
};

}  // namespace stalltrace::analysis
