// SPDX-License-Identifier: Apache-2.0
// A communicator can have two names: the hash of its id, where probes saw the id, and NCCL's own hash, where only the
// profiler plugin saw it. One job can have nodes of both kinds; a node that knows both names of a communicator gives
// all rows the first.
#pragma once

#include <unordered_map>

#include "model/source.h"

namespace stalltrace::analysis {

/// Forwards a source, with the names of communicators made equal in every type that has one.
class CommonNames final : public EventSource {
 public:
  /// `source` outlives the object.
  static Result<CommonNames> read(EventSource& source);

  /// False: no row would change.
  [[nodiscard]] bool needed() const { return !names_.empty(); }
  /// Whose rows to read.
  EventSource& source() { return needed() ? static_cast<EventSource&>(*this) : source_; }

  Status read_state(AnyRows rows) override;
  Status read_stream(TimeRange range, AnyVisitor visitor) override;

 private:
  explicit CommonNames(EventSource& source) : source_(source) {}
  void rename(CommHash& hash) const;
  /// All names in the row.
  template <typename T>
  void rename_in(T& row) const;

  EventSource& source_;
  std::unordered_map<CommHash, CommHash> names_;  // NCCL's hash → the id's, where rows are named by both
};

}  // namespace stalltrace::analysis
