// SPDX-License-Identifier: Apache-2.0
// The calls of a process whose completion is not known yet. A program may launch calls that it never waits for, and
// open groups that it never ends: of both, a bounded number is kept. Whatever the number, a call costs logarithmic
// time. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "model/event_ids.h"
#include "model/events.h"

namespace stalltrace::capture {

/// Whether a call's stream is being captured into a CUDA graph.
enum class InCapture : uint8_t {
  kNo,
  kYes,
  kUnknown,  // the capture lasts so long that the record of its end may be lost
};

struct OpenCall {
  Collective row;
  InCapture in_capture = InCapture::kNo;  // decided at entry; until its launch has returned the row is open
  bool delivered = false;
  bool launched = false;                 // its call, and its group's, have returned
  int64_t launched_ns = 0;               // CLOCK_MONOTONIC
  uint64_t net_bytes = 0;                // of the process, at entry
  std::map<uint64_t, uint64_t> streams;  // whose synchronisation completes it → since when, CLOCK_MONOTONIC
  uint64_t request = 0;                  // MPI request whose wait completes it
};

class OpenCalls {
 public:
  /// A GPU's launch queue holds about a thousand calls: calls further back have ended unseen (polled events, transfers
  /// that use no socket).
  static constexpr size_t kMostLaunched = 4096;
  /// The largest groups are an AllToAll's, with a Send and a Recv for each rank.
  static constexpr size_t kMostNotLaunched = 16'384;

  /// A call by its row's event id; it is not launched yet.
  void add(OpenCall call);
  /// Null where it is not there.
  OpenCall* find(EventId event);
  [[nodiscard]] bool contains(EventId event) const { return calls_.contains(event); }
  [[nodiscard]] size_t size() const { return calls_.size(); }
  /// Of a call that is there. `request`: 0 none.
  void launch(OpenCall& call, int64_t launched_ns, uint64_t request = 0);
  OpenCall take(EventId event);
  /// Whether as many are kept as may be: for one more the oldest is to be taken.
  [[nodiscard]] bool too_many() const;
  /// The oldest, of those that are too many if some are, and first of those that were launched; 0: there is none.
  [[nodiscard]] EventId oldest() const;
  /// The call that returned this request; where the library reused the request, the latest such call. 0: none.
  [[nodiscard]] EventId begun_as(uint64_t request) const;

  /// In order of entry.
  [[nodiscard]] const std::map<EventId, const OpenCall*>& launched() const { return launched_; }
  template <typename Visit>
  void for_each(const Visit& visit) {
    for (auto& [event, call] : calls_) {
      visit(call);
    }
  }

 private:
  std::map<EventId, OpenCall> calls_;
  std::map<EventId, const OpenCall*> launched_;
  std::set<EventId> not_launched_;
  std::unordered_map<uint64_t, EventId> by_request_;
};

}  // namespace stalltrace::capture
