// SPDX-License-Identifier: Apache-2.0
// Which rows the evidence of some stalls is made of, for sources that have rows of other hosts brought: they need not
// bring what would be read and not used.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "analysis/intervals.h"
#include "analysis/timeline/cluster.h"
#include "base/result.h"
#include "model/node_clock.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// As EvidenceStore::load reads; a source that was not prepared for another range brings all rows of it.
struct EvidenceReads {
  IntervalSet windows;  // around the stalls, on the common clock
  TimeRange rows;       // what is read of the tables with rows of connections, threads and transfers
  TimeRange host;       // what is read of the tables with drops and counters

  /// `windows`: those of the stalls, in any order.
  static EvidenceReads of(std::vector<Interval> windows, const Cluster& cluster);
};

/// Learns what will be read, and when it was.
class EvidenceProvider {
 public:
  virtual ~EvidenceProvider() = default;
  /// Until end(), `rows` of TcpSample, WaitSpan and ProxyStep are used as far as NarrowedSource delivers them.
  virtual Status begin(const EvidenceReads& reads, const std::vector<NodeClock>& clocks) = 0;
  virtual void end() = 0;
};

/// A source without rows that make no difference to EvidenceStore::load: samples, waits and steps outside of the
/// windows. It keeps those outside that say something about the inside (a sender's recovery that a sample ends, the end
/// of a wait), and one row of each thread and table, by which their existence is known.
class NarrowedSource final : public EventSource {
 public:
  /// `windows` are on the common clock, `shifts_ns` what has to be added to times of each node; of other nodes all rows
  /// are delivered. `source` must outlive the object.
  NarrowedSource(EventSource& source, IntervalSet windows, std::map<NodeId, int64_t> shifts_ns)
      : source_(source), windows_(std::move(windows)), shifts_ns_(std::move(shifts_ns)) {}

  Status read_state(AnyRows rows) override { return source_.read_state(rows); }
  Status read_stream(TimeRange range, AnyVisitor visitor) override;

 private:
  template <typename T>
  [[nodiscard]] bool near_a_stall(const T& row) const;
  Status samples(TimeRange range, const Visitor<TcpSample>& visit);
  Status waits(TimeRange range, const Visitor<WaitSpan>& visit);

  EventSource& source_;
  IntervalSet windows_;
  std::map<NodeId, int64_t> shifts_ns_;
};

}  // namespace stalltrace::analysis
