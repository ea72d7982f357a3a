// SPDX-License-Identifier: Apache-2.0
// Calls of one process that the probes have reported and its profiler file has not, matched with the file's calls.
// Lookups take logarithmic time: by number on the communicator, and by launch time. Pure; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "blackbox/pairing/communicator_identity.h"
#include "model/events.h"

namespace stalltrace::blackbox {

/// Rows kept for a process: those of the last 2 s up to 32,768, and at least 1,024. The file is read to its end twice a
/// second; where that does not succeed, rows are kept longer.
inline constexpr size_t kFewestRows = 1024;
inline constexpr size_t kMostRows = 32768;
inline constexpr int64_t kRowsKeptNs = 2'000'000'000;
/// Calls of a process whose rows were given up, and whose numbers are remembered.
inline constexpr size_t kMostGivenUp = 65536;

/// AllToAll, Gather, Scatter: NCCL runs them as a Send and a Recv for each peer, which are not separate calls.
bool is_made_of_transfers(Operation op);

/// How well a call of the probes and one of the file agree: the file's began during the probe's launch, on the same
/// thread, and has the same number. nullopt where they can't be the same, or too little agrees.
std::optional<int> agreement(const Collective& probed, const Collective& profiled,
                             const CommunicatorIdentity& identity);

/// Whether the file's call began during the probe's launch, on the same thread or an unknown one.
bool launched_by(const Collective& probed, const Collective& profiled);

/// Rows by launch time.
class LaunchIndex {
 public:
  void add(const Collective& row);
  /// Does nothing if the row is absent.
  void remove(const Collective& row);
  /// Visits the rows with operation `op` whose launch may contain `start_ns` (UTC), and few others, until `visit`
  /// returns true.
  template <typename Visit>
  void for_each_at(Operation op, int64_t start_ns, const Visit& visit) const {
    for (auto rows = by_length_.lower_bound({op, 0}); rows != by_length_.end() && rows->first.first == op; ++rows) {
      const auto end = rows->second.upper_bound({latest_start(start_ns), std::numeric_limits<EventId>::max()});
      for (auto row = rows->second.lower_bound({earliest_start(start_ns, rows->first.second), 0}); row != end; ++row) {
        if (visit(row->second)) {
          return;
        }
      }
    }
  }

 private:
  static int length_class(const Collective& row);
  static int64_t earliest_start(int64_t start_ns, int length_class);
  static int64_t latest_start(int64_t start_ns);

  // By operation and bit width of the launch's length: within one class, a launch that contains a time began at most
  // twice that length before it.
  std::map<std::pair<Operation, int>, std::set<std::pair<int64_t, EventId>>> by_length_;
};

class PendingCalls {
 public:
  /// Adds the row or replaces that of the same event. Beyond the limit the oldest row is given up. `remember`:
  /// given_up() will know it; `behind`: rows are given up for their number only. Returns false where given_up() forgot
  /// another call for it that the file may still report: that call would get a second row.
  bool put(const Collective& row, bool remember, bool behind = false);
  /// Removes a row, which must be present. The reference is valid until the next put() or take().
  const Collective& take(EventId event);
  /// The row that agrees best with a call of the file, the first of equals; null where none agrees.
  [[nodiscard]] const Collective* match(const Collective& profiled, const CommunicatorIdentity& identity);
  /// The AllToAll, Gather or Scatter that contains a Send or Recv of the file, or null.
  [[nodiscard]] const Collective* parent(const Collective& profiled);
  /// The row of a call of the file if it was given up: found by its number, for the last kMostGivenUp.
  [[nodiscard]] std::optional<EventId> given_up(const Collective& profiled, const CommunicatorIdentity& identity);
  [[nodiscard]] size_t size() const { return rows_.size(); }
  [[nodiscard]] bool contains(EventId event) const { return rows_.contains(event); }

 private:
  using NumberKey = std::tuple<uint64_t, Operation, int32_t, int64_t>;  // pointer, operation, peer, number
  struct GivenUp {
    EventId event = 0;
    bool numbered_by_nccl = false;  // true from the communicator's first call on
    bool reported = false;          // the file has reported the call
    int64_t called_ns = 0;
  };
  static std::optional<NumberKey> key_of(const Collective& row, uint64_t pointer, std::optional<int64_t> number);
  void index_all();
  void index(const Collective& row);
  void unindex(const Collective& row);
  bool give_up_oldest(bool remember, bool behind);
  Collective& slot_of(EventId event);

  std::map<EventId, Collective> rows_;
  std::map<EventId, Collective>::node_type spare_;  // of the row that was removed last: most calls replace an old one
  bool indexed_ = false;                            // since the first lookup: a process without a file never has one
  std::set<std::pair<NumberKey, EventId>> by_number_;
  LaunchIndex by_launch_;
  int64_t newest_ns_ = 0;
  std::map<NumberKey, GivenUp> given_up_;
  std::deque<NumberKey> given_up_order_;
};

}  // namespace stalltrace::blackbox
