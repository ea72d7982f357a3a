// SPDX-License-Identifier: Apache-2.0
// What a trace file consists of, independent of its format: tracks with slices, instants and counter values, and flows
// between slices. The model (export/trace_model.h) says what is on them, an encoder writes it down.
//
// Texts come from recordings, which any user may have made: they may hold any bytes. An encoder makes them printable.
// Times are UTC nanoseconds on the common clock, in any order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace stalltrace::trace_export {

/// Numbers from 1, in the order of declaration.
using TrackId = uint32_t;
inline constexpr TrackId kNoTrack = 0;
/// Connects slices; from 1.
using FlowId = uint64_t;

enum class TrackKind : uint8_t {
  kProcess,  // at the top: a process, or what is laid out like one
  kFolder,   // has no events, only tracks below it
  kEvents,   // slices that do not overlap, and instants
  kCounter,
};

struct Track {
  TrackId id = kNoTrack;
  TrackId parent = kNoTrack;  // declared before; none for a process
  TrackKind kind = TrackKind::kEvents;
  std::string name;
  int32_t pid = 0;    // of a process: unique in the file
  std::string unit;   // of a counter: "bytes"
  int32_t order = 0;  // among the tracks of its parent
};

/// A 64-bit value that is read as hexadecimal: a handle, a hash.
struct Hex {
  uint64_t value = 0;
};
/// A text that seldom occurs twice: it is not worth remembering.
struct UniqueText {
  std::string_view text;
};
using AnnotationValue = std::variant<int64_t, uint64_t, double, bool, Hex, UniqueText, std::string_view>;
/// `name` is a literal.
struct Annotation {
  const char* name = nullptr;
  AnnotationValue value;
};
using Annotations = std::span<const Annotation>;

struct Slice {
  TrackId track = kNoTrack;
  const char* category = "";  // a literal
  std::string_view name;
  int64_t begin_ns = 0;
  std::optional<int64_t> end_ns;  // not before begin_ns; none: it has not ended
  Annotations annotations;
  std::span<const FlowId> flows_out;  // begin here
  std::span<const FlowId> flows_in;   // end here: the slice begins no earlier than the one that they come from
};

struct Instant {
  TrackId track = kNoTrack;
  const char* category = "";
  std::string_view name;
  int64_t time_ns = 0;
  Annotations annotations;
};

/// Receives an encoder's bytes.
using ByteSink = std::function<Status(std::string_view bytes)>;

/// Writes one file, piece by piece. After the first error of its sink it drops everything.
class TraceEncoder {
 public:
  virtual ~TraceEncoder() = default;

  /// Once, first: `zero_ns` is the time that a viewer shows as zero.
  virtual void begin(int64_t zero_ns) = 0;
  /// Once for each track, before any event on it.
  virtual void track(const Track& track) = 0;
  virtual void slice(const Slice& slice) = 0;
  virtual void instant(const Instant& instant) = 0;
  virtual void counter(TrackId track, int64_t time_ns, double value) = 0;
  virtual void counter(TrackId track, int64_t time_ns, int64_t value) = 0;
  /// Once, last. The first error of the sink.
  virtual Status finish() = 0;
  /// The first error of the sink so far.
  [[nodiscard]] virtual const Status& status() const = 0;
};

}  // namespace stalltrace::trace_export
