// SPDX-License-Identifier: Apache-2.0
// Which streams of a process are being captured into CUDA graphs. A capture begins on one stream; others join it when
// they wait for an event that was recorded in it, and leave it when it ends. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/clock.h"

namespace stalltrace::capture {

class CapturedStreams {
 public:
  /// A capture of this process.
  using Id = uint64_t;
  static constexpr Id kNone = 0;
  /// Streams of a process that are followed. What is given to others counts as if it ran.
  static constexpr size_t kMostStreams = 1024;
  /// Of a capture that seems to last longer, the record of its end may be lost: what its streams are given may run.
  static constexpr uint64_t kLongestNs = 60 * kNsPerSecond;

  /// All times are CLOCK_MONOTONIC.
  void begin(uint64_t stream, uint64_t at_ns);
  /// This capture, and so all its streams, has ended.
  void end(Id capture);
  /// A wait that the runtime refuses while the capture lasts was entered at this time, and has succeeded.
  void end_if_before(Id capture, uint64_t waited_from_ns);
  /// ... a wait for the whole device.
  void end_all_before(uint64_t waited_from_ns);
  /// The stream has waited for an event that was recorded in this capture.
  void join(uint64_t stream, Id capture);
  /// The stream did what the runtime refuses in a capture: it is in none any more.
  void take_out(uint64_t stream);
  /// kNone: what the stream is given runs.
  [[nodiscard]] Id of(uint64_t stream) const;
  [[nodiscard]] bool is_open(Id capture) const { return open_.contains(capture); }
  /// 0 where it is not open.
  [[nodiscard]] uint64_t begun_ns(Id capture) const;

 private:
  std::unordered_map<uint64_t, Id> streams_;
  std::unordered_map<Id, uint64_t> open_;  // since when
  Id newest_ = kNone;
};

}  // namespace stalltrace::capture
