// SPDX-License-Identifier: Apache-2.0
// Which streams of a process are being captured into CUDA graphs. A capture begins on one stream; others join it when
// they wait for an event that was recorded in it, and leave it when it ends. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

namespace stalltrace::capture {

class CapturedStreams {
 public:
  /// A capture of this process.
  using Id = uint64_t;
  static constexpr Id kNone = 0;
  /// Streams of a process that are followed. What is given to others counts as if it ran.
  static constexpr size_t kMostStreams = 1024;

  void begin(uint64_t stream);
  /// The capture that this stream is a part of, and so all its streams, has ended.
  void end(uint64_t stream);
  /// The stream has waited for an event that was recorded in this capture.
  void join(uint64_t stream, Id capture);
  /// kNone: what the stream is given runs.
  [[nodiscard]] Id of(uint64_t stream) const;
  [[nodiscard]] bool is_open(Id capture) const { return open_.contains(capture); }

 private:
  std::unordered_map<uint64_t, Id> streams_;
  std::unordered_set<Id> open_;
  Id newest_ = kNone;
};

}  // namespace stalltrace::capture
