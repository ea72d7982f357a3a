// SPDX-License-Identifier: Apache-2.0
// Calls of one process that both the probes and its profiler file have reported. The probes show an end of their own
// when the program synchronises, which may be long after the file has shown the call's: what the file reported is kept
// until then. Adding, finding and dropping take logarithmic time. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "blackbox/decode/call.h"
#include "blackbox/pairing/pending_calls.h"
#include "model/events.h"

namespace stalltrace::blackbox {

/// Ends of dropped pairs that are kept for the probes' row, the newest ones. The probes stop waiting for a launched
/// call once the process has launched 4,096 later ones: an older end is not asked for.
inline constexpr size_t kMostKeptEnds = 8192;

/// The end of a call as the file reports it.
struct FileEnd {
  std::optional<int64_t> end_ns{};
  std::optional<int64_t> kernel_start_ns{};  // of its first part, where it is made of transfers
  std::optional<int64_t> kernel_end_ns{};    // of its last one
  bool kernels_known = true;                 // of all parts that have ended
};

/// A probe row whose call the file has reported.
struct PairedCall {
  Collective row;  // the probes' row
  FileEnd file{};
  bool open = false;                // the file reports it as not ended
  std::set<uint64_t> open_parts{};  // for a call made of transfers: ids of those that have not ended
  [[nodiscard]] bool ended() const { return file.end_ns && open_parts.empty(); }
};

class PairedCalls {
 public:
  /// Null where there is no such pair, or it was dropped.
  PairedCall* find(EventId event);
  /// Pairs the row of a call that is not here, for report(). Where there are too many (see kRowsKeptNs), the oldest
  /// pairs are dropped: first those that the file does not report as open, since it will report the end of the others.
  PairedCall& add(Collective row);
  /// The probes have reported the call again.
  void set_row(PairedCall& call, Collective row);
  /// The file has reported the call, or a transfer that is a part of it. Returns whether that changes its row.
  bool report(PairedCall& call, const ProfilerCall& reported);
  /// The AllToAll, Gather or Scatter that contains a Send or Recv of the file, or null.
  PairedCall* parent(const Collective& profiled);

  /// What the file reported of a call whose pair was dropped before the probes showed an end. With `row`, a newer row
  /// of the probes, that has an end, it is forgotten.
  std::optional<FileEnd> kept_end(const Collective& row);
  /// Whether the file's end of a call that is not here may have been forgotten: beyond kMostKeptEnds the oldest are.
  [[nodiscard]] bool may_have_forgotten(EventId event) const { return event <= newest_forgotten_; }

 private:
  void make_room();
  void drop(EventId event);

  std::map<EventId, PairedCall> calls_;
  std::set<EventId> closed_;  // of calls_: those that the file does not report as open
  LaunchIndex parents_;       // of calls_: those that are made of transfers
  int64_t newest_ns_ = 0;
  std::map<EventId, FileEnd> kept_ends_;  // of dropped pairs
  EventId newest_forgotten_ = 0;
};

}  // namespace stalltrace::blackbox
