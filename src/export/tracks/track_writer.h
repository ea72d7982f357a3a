// SPDX-License-Identifier: Apache-2.0
// Puts events on tracks. Slices that overlap get subtracks, tracks side by side, so that those on one track never do.
// Whatever the times are, what comes out is a valid trace; what could not be shown as it is, is counted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "export/encode/trace_encoder.h"
#include "export/tracks/common_clock.h"

namespace stalltrace::trace_export {

/// The rows of a process, in the order they are shown.
enum class RowKind : uint8_t {
  kFindings,
  kStalls,
  kProcess,
  kPython,
  kLog,
  kCollectives,
  kLaunches,
  kKernels,
  kProxySteps,
  kWaits,
  kConnection,  // a folder, with the next ones in it
  kSends,
  kReceives,
  kTcpEvents,
  kPacketDrops,
  kCounter,
  kClock,
  kLosses,
};

struct TraceSummary {
  uint64_t tracks = 0;
  uint64_t slices = 0;
  uint64_t instants = 0;
  uint64_t counter_values = 0;
  uint64_t flows = 0;
  uint64_t unended = 0;               // of the slices: they have no end
  uint64_t reversed = 0;              // ended before they began: instants
  uint64_t crowded = 0;               // overlapped too many others: instants
  uint64_t left_out = 0;              // events that found no room for another track
  uint64_t stalls_without_calls = 0;  // stalled instances of findings that have too many: no slice, no flows
  std::vector<int32_t> absent_ranks;  // asked for, but not recorded
};

/// A function that makes a name, for as long as the function lives: called only where a track is new.
class Name {
 public:
  template <typename F>
  Name(const F& make)  // callers write a lambda
      : make_(&make), call_([](const void* function) -> std::string { return (*static_cast<const F*>(function))(); }) {}
  [[nodiscard]] std::string operator()() const { return call_(make_); }

 private:
  const void* make_;
  std::string (*call_)(const void*);
};

class TrackWriter {
 public:
  /// Slices of one kind that are open at a time; more are shown as instants.
  static constexpr size_t kMostSubtracks = 64;
  /// More tracks than a person can read; bounds the memory, whatever a recording holds.
  static constexpr size_t kMostTracks = 500'000;

  /// `stopped` is asked now and then; once it says so, all further events are dropped.
  TrackWriter(TraceEncoder& encoder, std::function<bool()> stopped) : encoder_(encoder), stopped_(std::move(stopped)) {}

  /// A track for a process. A pid that is taken, or none, is replaced by one that no process can have.
  TrackId process(const std::string& name, int32_t pid);
  /// The folder of `parent` for `which`, declared on its first use with the name that `name` gives; kNoTrack: no room.
  TrackId folder(TrackId parent, RowKind kind, uint64_t which, Name name);

  /// Where an event goes: among the rows of `parent`, those of one kind and one `which` share subtracks. `name` is
  /// asked once.
  struct Row {
    TrackId parent = kNoTrack;
    RowKind kind = RowKind::kCollectives;
    uint64_t which = 0;
    Name name;
  };
  /// `slice.track` is chosen here. Its end may be anything. False if it did not become a slice. Slices of a row overlap
  /// least, and so need the fewest subtracks, if they come in the order of their begins.
  bool slice(const Row& row, Slice slice);
  void instant(const Row& row, Instant instant);
  /// A value that is not finite is left out.
  void counter(const Row& row, const char* unit, int64_t time_ns, int64_t value);
  void counter(const Row& row, const char* unit, int64_t time_ns, double value);

  /// False once the sink has failed or the export was stopped: what follows is dropped.
  [[nodiscard]] bool going_on();
  [[nodiscard]] Status status() const;
  [[nodiscard]] const TraceSummary& summary() const { return summary_; }

 private:
  struct Key {
    TrackId parent;
    RowKind kind;
    uint64_t which;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Subtrack {
    TrackId track = kNoTrack;
    int64_t end_ns = 0;
  };
  struct Subtracks {
    std::string name;
    int32_t order = 0;
    std::vector<Subtrack> subtracks;
  };

  Subtracks& subtracks(const Row& row);
  /// Declares a track; kNoTrack: no room.
  TrackId declare(Track track);
  TrackId first_subtrack(const Row& row, TrackKind kind, const char* unit);
  TrackId counter_track(const Row& row, const char* unit);

  TraceEncoder& encoder_;
  std::function<bool()> stopped_;
  bool was_stopped_ = false;
  uint64_t events_ = 0;
  TraceSummary summary_;
  std::unordered_map<Key, Subtracks, KeyHash> rows_;
  std::unordered_map<int32_t, TrackId> pids_;
  int32_t next_pid_ = (1 << 22) + 1;  // above the kernel's PID_MAX_LIMIT
  int32_t next_order_ = 0;
};

}  // namespace stalltrace::trace_export
