// SPDX-License-Identifier: Apache-2.0
// Snapshots of a job for tests: `ranks` ranks, each connected to the next in a ring, all inside one call.
#pragma once

#include <string>
#include <vector>

#include "autopsy/judge/judge.h"
#include "autopsy/snapshot.h"

namespace stalltrace::autopsy::testing {

/// Sets the location of a rank that runs Python.
void at_call_site(RankState& state, const stacks::CallSite& site);

class JobSnapshots {
 public:
  explicit JobSnapshots(int ranks);

  RankState& first(int rank) { return snapshots_[0].ranks.at(static_cast<size_t>(rank)); }
  RankState& last(int rank) { return snapshots_[1].ranks.at(static_cast<size_t>(rank)); }
  /// Applies the change to the rank in both snapshots.
  void both(int rank, const auto& change) {
    change(first(rank));
    change(last(rank));
  }
  /// The socket of `rank` towards `peer`, a neighbour, in the first or the last snapshot.
  TcpSocket& socket(int number, int rank, int peer);
  /// The rank is in no call: it reads a FIFO in load_batch.
  void leaves(int rank);
  /// The rank's process is not there, nor are its sockets.
  void remove(int rank);
  std::vector<Snapshot>& snapshots() { return snapshots_; }

  /// The verdict on the only job.
  JobVerdict verdict();
  Context context{.utc_offset_ns = 0, .traced = {{"host7", {}}}, .views = {}, .not_joined = {}, .ras = {}};

 private:
  std::vector<Snapshot> snapshots_;
};

}  // namespace stalltrace::autopsy::testing
