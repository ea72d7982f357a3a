// SPDX-License-Identifier: Apache-2.0
// A communicator can have two names: the hash of its id, if probes saw the id, and NCCL's own hash, if only the
// profiler plugin or NCCL's memory showed it. One job can have nodes of both kinds; a node that knows both names of a
// communicator lets all rows use the first.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "model/source.h"
#include "model/streams/node_streams.h"

namespace stalltrace::analysis {

/// Forwards a source and replaces communicator names by one name in every type that has them.
class CommonNames final : public EventSource, public NodeStreams {
 public:
  /// `source` must outlive the object.
  static Result<CommonNames> read(EventSource& source);

  /// False if no row would change.
  [[nodiscard]] bool needed() const { return !names_.empty() || !counted_.empty(); }
  /// The source to read rows from.
  EventSource& source() { return needed() ? static_cast<EventSource&>(*this) : source_; }

  Status read_state(AnyRows rows) override;
  Status read_stream(TimeRange range, AnyVisitor visitor) override;
  Status read_by_node(TimeRange range, const std::set<NodeId>* nodes, AnyVisitor visitor) override;

 private:
  /// A communicator of a process, by its address.
  using Pointer = std::tuple<NodeId, int32_t, uint64_t>;
  template <typename T>
  static Pointer pointer_of(const T& row) {
    return {row.node_id, row.pid, row.comm_ptr};
  }
  /// A communicator without a name whose calls NCCL counted: its calls get its name, and a number that ranks share.
  struct Counted {
    CommHash name = 0;
    int64_t calls_before = 0;
  };

  explicit CommonNames(EventSource& source) : source_(source) {}
  void find_counted(const std::vector<Communicator>& rows);
  [[nodiscard]] const Counted* counted(const Pointer& pointer) const;
  void rename(CommHash& hash) const;
  /// Replaces all names in the row.
  template <typename T>
  void rename_in(T& row) const;
  template <typename T>
  [[nodiscard]] bool changes(const T& row) const;
  /// Passes rows to `read`, a way of reading the source, and from there with common names to the visitor.
  template <typename Read>
  Status rename_all(AnyVisitor visitor, Read read) const;

  EventSource& source_;
  std::unordered_map<CommHash, CommHash> names_;  // NCCL's hash -> the id's hash, if both name a communicator
  std::map<Pointer, Counted> counted_;
};

}  // namespace stalltrace::analysis
