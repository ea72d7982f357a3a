// SPDX-License-Identifier: Apache-2.0
// The processes, nodes and connections of a recording, and their tracks. Those of ranks are declared first, in the
// order of their ranks; others when an event needs them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "export/tracks/finding_flows.h"
#include "export/tracks/selection.h"
#include "export/tracks/track_writer.h"
#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::trace_export {

class Participants {
 public:
  static Result<Participants> read(EventSource& source);

  /// Declares the tracks of the selected ranks. An error if ranks were asked for and none of them is recorded.
  Status declare_ranks(const Selection& selection, TrackWriter& writer);
  /// Ranks that were asked for and are not recorded, after declare_ranks().
  [[nodiscard]] const std::vector<int32_t>& absent_ranks() const { return absent_ranks_; }

  /// The track of a process; kNoTrack: it is not selected. A process without a row is one without a rank, and pid 0
  /// stands for the node.
  TrackId process(NodeId node, int32_t pid);
  /// The track for what belongs to a node; kNoTrack: none of its ranks is selected.
  TrackId node(NodeId node);
  [[nodiscard]] bool selected(const ProcessKey& process) const;

  /// Null: it has no row.
  [[nodiscard]] const Connection* connection(NodeId node, uint64_t cookie) const;
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<Process>& processes() const { return processes_; }
  [[nodiscard]] std::string node_name(NodeId node) const;
  [[nodiscard]] std::optional<int32_t> rank_of(const ProcessKey& process) const;
  /// The process of the culprit, else of the link's sender.
  [[nodiscard]] std::optional<ProcessKey> culprit_of(const Finding& finding, const Report& report) const;

 private:
  struct Known {
    std::optional<int32_t> rank;
    int32_t nranks = 0;  // of the communicator that the rank is from; the job's is the largest
    std::optional<TrackId> track;
  };

  void take_ranks(const std::vector<Communicator>& communicators);
  TrackId declare(const ProcessKey& key, Known& known);
  [[nodiscard]] std::optional<ProcessKey> process_with_rank(std::optional<int32_t> rank, const Finding& finding,
                                                            const Report& report) const;

  const Selection* selection_ = nullptr;
  TrackWriter* writer_ = nullptr;
  std::vector<Node> nodes_;
  std::map<NodeId, std::string> node_names_;
  std::vector<Process> processes_;
  std::vector<int32_t> absent_ranks_;
  std::map<ProcessKey, Known> known_;
  std::map<NodeId, TrackId> node_tracks_;
  std::map<std::pair<NodeId, uint64_t>, Connection> connections_;
};

}  // namespace stalltrace::trace_export
