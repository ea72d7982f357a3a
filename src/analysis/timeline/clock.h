// SPDX-License-Identifier: Apache-2.0
// One clock for all nodes: the first node's; between hosts, that of the first host with a collective.
//
// Nodes with one boot id share CLOCK_MONOTONIC; their times differ exactly by the difference of their clock offsets.
// Between hosts clock_offsets/offset_bounds bound the offset. Clocks drift: between hosts the correction is a line over
// time (clock_offsets/correction_line).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analysis/timeline/clock_offsets/correction_line.h"
#include "model/node_clock.h"
#include "model/source.h"
#include "model/time_range.h"

namespace stalltrace::analysis {

class OffsetBounds;

/// How a node's times are put on the common clock.
struct ClockLine {
  int64_t shift_ns = 0;  // to be added, and
  ClockDrift drift;      // what is to be added beside it

  [[nodiscard]] int64_t at(int64_t time_ns) const { return time_ns + shift_ns + drift.correction_ns(time_ns); }
  /// The node's time that at() moves to this one; where drift moves two there, either of them.
  [[nodiscard]] int64_t back(int64_t common_ns) const;
};

/// From what a node's times were moved to before to what they are to be moved to now.
struct ClockMove {
  ClockLine before;
  ClockLine after;

  [[nodiscard]] bool none() const { return before.shift_ns == after.shift_ns && before.drift == after.drift; }
  [[nodiscard]] int64_t operator()(int64_t time_ns) const { return after.at(before.back(time_ns)); }
};

class Clock {
 public:
  /// A clock from the nodes' own data: nodes of one host are aligned.
  static Clock of(const std::vector<Node>& nodes);
  /// Aligns the hosts; `bounds` are in times that this clock has already made common.
  void align(const std::vector<Node>& nodes, const OffsetBounds& bounds);

  [[nodiscard]] size_t hosts() const { return host_count_; }
  /// Index of the node's host.
  [[nodiscard]] size_t host(NodeId node) const;
  /// A host and its error_ns().
  struct Known {
    size_t host = ~size_t{0};  // by default none
    std::optional<int64_t> error_ns;
  };
  [[nodiscard]] Known known(NodeId node) const;
  /// The number of ns to add to a time of `node`; where its clock drifts, in the middle of the job.
  [[nodiscard]] int64_t shift_ns(NodeId node) const { return line(node).shift_ns; }
  [[nodiscard]] ClockLine line(NodeId node) const;
  [[nodiscard]] int64_t to_common(NodeId node, int64_t time_ns) const { return line(node).at(time_ns); }
  /// The time of `node` that to_common() moves to this one.
  [[nodiscard]] int64_t from_common(NodeId node, int64_t common_ns) const { return line(node).back(common_ns); }
  /// How far a common time of `node` may be off while the job ran; 0 on the reference's host, none where nothing
  /// bounds it.
  [[nodiscard]] std::optional<int64_t> error_ns(NodeId node) const;
  /// Notes for the reader: offsets with their errors, and hosts that could not be aligned.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  /// True if the order of events on these two nodes is known more precisely than the length of a stall.
  [[nodiscard]] bool comparable(NodeId a, NodeId b) const;
  /// What error_ns() is by.
  [[nodiscard]] ClockSource source(NodeId node) const;
  /// The host whose clock is the common one.
  [[nodiscard]] size_t reference() const { return reference_; }
  /// True if every host is comparable with every other.
  [[nodiscard]] bool all_comparable() const;
  /// The largest shift: the maximum distance of a node's times from the common clock.
  [[nodiscard]] int64_t largest_shift_ns() const;

 private:
  struct Host {
    size_t index = 0;
    bool reliable = true;             // relative to the reference
    std::optional<int64_t> error_ns;  // likewise
    ClockSource source = ClockSource::kUnknown;
  };
  void distrust(size_t host);
  void set_error(size_t host, int64_t error_ns, ClockSource source);
  struct Moved {
    std::string name;
    CorrectionLine correction;
    ClockSource source;
  };
  void move_host(const std::vector<Node>& nodes, size_t host, const CorrectionLine& correction, TimeRange span);
  void note_moved(const std::vector<Moved>& hosts, const std::string& reference);
  void note_doubts(const std::vector<Node>& nodes, const OffsetBounds& offsets, const std::string& reference);
  void note_sources(const std::vector<Moved>& hosts, const std::string& reference);
  void note_incomparable(const std::vector<std::string>& hosts, const std::string& reference);

  std::unordered_map<NodeId, ClockLine> lines_;
  std::unordered_map<NodeId, Host> hosts_;
  size_t host_count_ = 0;
  size_t reference_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace stalltrace::analysis
