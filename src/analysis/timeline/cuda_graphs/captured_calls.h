// SPDX-License-Identifier: Apache-2.0
// Calls that a rank captured into a CUDA graph: they did not run, and no instance has their numbers.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "analysis/timeline/sequence_table.h"
#include "analysis/timeline/timeline.h"
#include "model/events/collective.h"

namespace stalltrace::analysis {

class CapturedCalls {
 public:
  /// `row`: a call that was captured.
  void note(const Collective& row);
  /// Sets Group::captured and CallSequence::captured_end, and takes the calls with these numbers out of their groups,
  /// also where other ranks have them as ones that ran: their agent did not see the capture, and nothing will report
  /// an end. What has not returned stays: its rank hangs in the call itself. `table` is that of `sequences`.
  void leave_out(const SequenceTable& table, std::vector<CallSequence>& sequences, std::vector<Group>& groups) const;

 private:
  /// A rank's calls on a communicator, or to a peer: a sequence without calls is made by the communicator's name.
  using Key = std::tuple<NodeId, int32_t, uint64_t, CommHash, int32_t, bool>;
  static Key key_of(const SequenceKey& key);

  std::map<Key, std::vector<int64_t>> numbers_;  // as their rank numbers them
};

}  // namespace stalltrace::analysis
