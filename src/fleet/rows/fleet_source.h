// SPDX-License-Identifier: Apache-2.0
// The recordings of many nodes as one source for an analysis here. What every analysis needs is brought first, in a
// small form: the things that exist, and all collectives. Rows of other tables are brought when they are asked for; of
// the evidence of stalls those that lie around the stalls. What it delivers is what the recordings in one folder would.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/evidence/reads/evidence_reads.h"
#include "fleet/client.h"
#include "fleet/node_info.h"
#include "fleet/query.h"
#include "fleet/rows/received_rows.h"
#include "model/node_clock.h"
#include "model/source.h"
#include "model/streams/node_streams.h"
#include "serve/rows/rows_request.h"
#include "store/rows/row_block.h"

namespace stalltrace::fleet {

struct FleetSourceOptions {
  ClientOptions client;                   // its limit is for all that is asked of the nodes
  int64_t most_bytes = int64_t{1} << 30;  // of all rows that are kept, compressed; one of several nodes has a quarter
};

/// Used by one thread. While it delivers rows it may ask the nodes, so that a call may take up to the client's limit.
class FleetSource final : public EventSource, public NodeStreams, public analysis::EvidenceProvider {
 public:
  /// Asks all nodes: what they serve, their clocks, and what every analysis reads; failed() names those that did not
  /// answer. Each time nodes are asked, they have half of what is left of the limit: one that hangs leaves time to ask
  /// the others for more.
  static Result<std::unique_ptr<FleetSource>> open(std::vector<NodeAddress> nodes, FleetSourceOptions options);

  Status read_state(AnyRows rows) override;
  /// An error if a node does not answer any more: an analysis has to begin again, without it.
  Status read_stream(TimeRange range, AnyVisitor visitor) override;
  /// One recording after the other: each node's rows are in one of them.
  Status read_by_node(TimeRange range, const std::set<NodeId>* nodes, AnyVisitor visitor) override;

  Status begin(const analysis::EvidenceReads& reads, const std::vector<NodeClock>& clocks) override;
  void end() override { narrow_ = false; }

  [[nodiscard]] const std::vector<FailedNode>& failed() const { return failed_; }
  [[nodiscard]] size_t answering() const;
  /// Names nodes that are among failed() though they answer well: their rows found no room here. None: there are none.
  [[nodiscard]] std::optional<std::string> no_room_note() const;
  /// What the nodes reported of their clocks when they were asked.
  [[nodiscard]] const std::vector<MeasuredClock>& measured_clocks() const { return measured_clocks_; }
  /// Of the reading on the nodes, and of nodes that have the same recording.
  [[nodiscard]] std::vector<std::string> notes() const;
  [[nodiscard]] int64_t rows_left_out() const;
  /// Of the limit.
  [[nodiscard]] std::chrono::nanoseconds time_left() const { return options_.client.limit - asked_for_; }

  struct Moved {
    int64_t bytes = 0;            // over the network, of answers
    int64_t recording_bytes = 0;  // the size of the recordings
    int64_t recordings = 0;
  };
  [[nodiscard]] const Moved& moved() const { return moved_; }

 private:
  struct Recording {
    size_t node = 0;
    std::string name;
    std::vector<Node> runs;
  };
  /// What was brought by one question: rows of one table of all recordings.
  struct Brought {
    serve::RowsRequest::Read read;
    std::vector<std::unique_ptr<store::TableBlocks>> of;  // by recording; null: its node failed
  };
  using Reads = std::vector<serve::RowsRequest::Read>;

  FleetSource(std::vector<NodeAddress> nodes, FleetSourceOptions options)
      : nodes_(std::move(nodes)), options_(std::move(options)), lost_(nodes_.size()), kept_bytes_(nodes_.size()) {}

  void begin_with(const Reads& reads);
  Status bring(const Reads& reads);
  std::vector<Status> converse(std::span<const NodeAddress> nodes, std::span<Conversation* const> conversations);
  size_t prepare_for(const Reads& reads);
  void keep(ReceivedRows& received, const Reads& reads, size_t first, size_t recording);
  [[nodiscard]] int64_t most_bytes_of(size_t node) const;
  Status choose_recordings();
  void lose(size_t node, Error error, bool found_no_room = false);
  [[nodiscard]] Brought* find(std::string_view table, TimeRange range, bool completely);
  Result<Brought*> have(std::string_view table, TimeRange range, bool completely);
  [[nodiscard]] std::vector<const store::TableBlocks*> tables_of(const Brought& brought) const;
  [[nodiscard]] std::map<NodeId, int64_t> shifts_of(size_t recording) const;
  [[nodiscard]] bool has_any(size_t recording, const std::set<NodeId>& nodes) const;

  std::vector<NodeAddress> nodes_;
  FleetSourceOptions options_;
  std::chrono::nanoseconds asked_for_{};  // how long nodes were asked until now
  std::vector<bool> lost_;                // by node
  std::vector<int64_t> kept_bytes_;       // by node, of rows
  std::vector<FailedNode> failed_;
  std::vector<std::string> without_room_;  // of these, as they were asked
  std::vector<Recording> recordings_;
  std::vector<std::unique_ptr<Brought>> brought_;
  store::UnifiedNodes unified_;
  bool narrow_ = false;  // the evidence of stalls is being read
  std::vector<TimeRange> windows_;
  std::map<NodeId, int64_t> shifts_ns_;  // by unified id
  std::vector<MeasuredClock> measured_clocks_;
  std::map<size_t, ClockOffset> clocks_;  // by node
  std::set<std::string> notes_;
  /// By recording and the tables that were asked for together: an analysis that begins again asks again.
  std::map<std::pair<size_t, std::string>, int64_t> rows_left_out_;
  Moved moved_;
};

}  // namespace stalltrace::fleet
