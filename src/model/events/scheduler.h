// SPDX-License-Identifier: Apache-2.0
// Waits of threads, and the programs that ran instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "model/events/event_traits.h"
#include "model/events/ids.h"

namespace stalltrace {

enum class WaitKind : uint8_t {
  kRunnable,  // ready, but something else ran
  kBlocked,   // interruptible sleep
  kDisk,      // uninterruptible sleep, for block I/O
  kStopped,   // stopped or traced
  kOnCpu,     // running: not a wait, but needed for what a late rank did
};
std::string_view to_text(WaitKind kind);
std::optional<WaitKind> wait_kind_from_text(std::string_view text);

/// Waits of one thread in [timestamp_ns, timestamp_ns + window_ns): `waited_ns` of it was spent in `kind`, over `count`
/// occasions. A single long wait has count 1 and waited_ns == window_ns.
struct WaitSpan {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  int64_t window_ns = 0;
  int64_t waited_ns = 0;
  bool open = false;  // had not ended when last observed
  uint32_t count = 1;
  WaitKind kind = WaitKind::kBlocked;
  int32_t pid = 0;
  int32_t tid = 0;
  std::string thread_name;
  int32_t by_pid = 0;  // kRunnable: the process that ran instead (for longest); 0: unknown
  std::string by_name;
  int64_t by_waited_ns = 0;  // at least this much of waited_ns is due to by_pid
};

template <>
struct EventTraits<WaitSpan> : StreamTraits<WaitSpan, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "wait_span";
  static int64_t end_ns(const WaitSpan& row) { return row.open ? kForever : known_until_ns(row); }
  static int64_t known_until_ns(const WaitSpan& row) { return row.timestamp_ns + row.window_ns; }
};

/// A process that is not traced and ran instead of traced threads (WaitSpan::by_pid).
struct Competitor {
  NodeId node_id = 0;
  int32_t pid = 0;
  int64_t start_ns = 0;
  std::string cmdline;  // as Process::cmdline
  std::string cgroup;   // path; empty: unknown
  /// The traced process that it descends from; of a rank that is not traced, one of its job that is. 0: neither is
  /// known.
  int32_t rank_pid = 0;
  std::optional<int64_t> exit_ns;  // when it was found to have ended
};

template <>
struct EventTraits<Competitor> : StateTraits<Competitor> {
  static constexpr std::string_view kTable = "competitor";
  static auto key(const Competitor& row) { return std::tuple(row.node_id, row.pid, row.start_ns); }
  static int64_t begin_ns(const Competitor& row) { return row.start_ns; }
  static int64_t end_ns(const Competitor& row) { return end_or_forever(row.exit_ns); }
};

inline constexpr TypeList<WaitSpan> kSchedulerTypes;
inline constexpr TypeList<Competitor> kCompetitorTypes;

}  // namespace stalltrace
