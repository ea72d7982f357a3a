// SPDX-License-Identifier: Apache-2.0
#include "export/encode/perfetto_encoder.h"

#include <zlib.h>

#include <map>
#include <string>
#include <unordered_map>

#include "export/encode/protobuf.h"
#include "export/encode/shown_text.h"

namespace stalltrace::trace_export {
namespace {

/// Field numbers of protos/perfetto/trace/ (google/perfetto, v58), by message.
namespace field {
constexpr uint32_t kTracePacket = 1;
namespace packet {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11, kInternedData = 12,
                   kSequenceFlags = 13, kCompressedPackets = 50, kClockId = 58, kDefaults = 59, kTrackDescriptor = 60,
                   kFirstPacket = 87;
}  // namespace packet
namespace snapshot {
constexpr uint32_t kClock = 1, kPrimaryClock = 2, kId = 1, kTime = 2;
}  // namespace snapshot
constexpr uint32_t kDefaultClockId = 58;
namespace track {
constexpr uint32_t kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8, kChildOrdering = 11, kOrder = 12,
                   kMerge = 15;
constexpr uint32_t kPid = 1, kProcessName = 6, kUnitName = 6;
}  // namespace track
namespace event {
constexpr uint32_t kCategory = 3, kAnnotation = 4, kType = 9, kName = 10, kTrack = 11, kIntegerValue = 30, kFlow = 47,
                   kLastFlow = 48, kRealValue = 44, kNameText = 23;
}  // namespace event
namespace annotation {
constexpr uint32_t kName = 1, kBool = 2, kUnsigned = 3, kSigned = 4, kReal = 5, kText = 6, kPointer = 7,
                   kInternedText = 17;
}  // namespace annotation
namespace interned {
constexpr uint32_t kCategories = 1, kNames = 2, kAnnotationNames = 3, kTexts = 29, kId = 1, kValue = 2;
}  // namespace interned
}  // namespace field

constexpr uint64_t kSequence = 1;
constexpr uint64_t kStateCleared = 1;
constexpr uint64_t kNeedsState = 2;
constexpr uint64_t kRealtime = 1;        // BuiltinClock
constexpr uint64_t kSequenceClock = 64;  // the first of those that belong to a sequence
constexpr uint64_t kBegin = 1, kEnd = 2, kInstant = 3, kCounterValue = 4;
constexpr uint64_t kExplicitOrder = 3;
constexpr uint64_t kMergeNone = 2;

constexpr size_t kBundleBytes = size_t{1} << 18;
/// What a sequence's reader has to hold; beyond it texts are written in full.
constexpr size_t kMostInterned = 65'536;
constexpr size_t kMostInternedBytes = size_t{16} << 20;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

/// One kind of interned texts. Ids count from 1.
class Interned {
 public:
  explicit Interned(uint32_t kind) : kind_(kind) {}

  /// The id of a text; adds it to `data` when it is new. 0: there is no more room.
  uint64_t id(std::string_view text, ProtoMessage& data) {
    if (const auto found = ids_.find(text); found != ids_.end()) {
      return found->second;
    }
    if (ids_.size() >= kMostInterned || bytes_ + text.size() > kMostInternedBytes) {
      return 0;
    }
    bytes_ += text.size();
    const uint64_t id = ids_.size() + 1;
    ids_.emplace(text, id);
    ProtoMessage entry;
    entry.varint(field::interned::kId, id);
    entry.bytes(field::interned::kValue, shown_text(text));
    data.message(kind_, entry);
    return id;
  }
  /// The same for a literal, found by its address.
  uint64_t literal(const char* text, ProtoMessage& data) {
    uint64_t& known = literals_[text];
    if (known == 0) {
      known = id(text, data);
    }
    return known;
  }

 private:
  uint32_t kind_;
  size_t bytes_ = 0;
  std::unordered_map<std::string, uint64_t, TextHash, std::equal_to<>> ids_;
  std::unordered_map<const void*, uint64_t> literals_;
};

class PerfettoEncoder final : public TraceEncoder {
 public:
  PerfettoEncoder(ByteSink sink, const PerfettoOptions& options) : sink_(std::move(sink)), options_(options) {}

  void begin(int64_t zero_ns) override {
    zero_ns_ = std::max<int64_t>(zero_ns, 0);
    ProtoMessage defaults;
    defaults.varint(field::kDefaultClockId, kSequenceClock);
    packet_.clear();
    packet_.varint(field::packet::kSequenceId, kSequence);
    packet_.varint(field::packet::kSequenceFlags, kStateCleared);
    packet_.varint(field::packet::kFirstPacket, 1);
    packet_.message(field::packet::kDefaults, defaults);
    put_packet();

    ProtoMessage snapshot;
    const auto add = [&](uint64_t clock, uint64_t time) {
      ProtoMessage entry;
      entry.varint(field::snapshot::kId, clock);
      entry.varint(field::snapshot::kTime, time);
      snapshot.message(field::snapshot::kClock, entry);
    };
    add(kSequenceClock, 0);
    add(kRealtime, static_cast<uint64_t>(zero_ns_));
    snapshot.varint(field::snapshot::kPrimaryClock, kRealtime);
    packet_.clear();
    packet_.varint(field::packet::kSequenceId, kSequence);
    packet_.message(field::packet::kClockSnapshot, snapshot);
    put_packet();
  }

  void track(const Track& track) override {
    ProtoMessage descriptor;
    descriptor.varint(field::track::kUuid, track.id);
    const std::string name = shown_text(track.name);
    if (track.parent != kNoTrack) {
      descriptor.varint(field::track::kParent, track.parent);
      descriptor.bytes(field::track::kName, name);
      descriptor.varint(field::track::kMerge, kMergeNone);
    }
    ProtoMessage inner;
    if (track.kind == TrackKind::kProcess) {
      inner.integer(field::track::kPid, track.pid);
      inner.bytes(field::track::kProcessName, name);
      descriptor.message(field::track::kProcess, inner);
    } else if (track.kind == TrackKind::kCounter) {
      inner.bytes(field::track::kUnitName, shown_text(track.unit));
      descriptor.message(field::track::kCounter, inner);
    }
    descriptor.varint(field::track::kChildOrdering, kExplicitOrder);
    descriptor.integer(field::track::kOrder, track.order);
    packet_.clear();
    packet_.varint(field::packet::kSequenceId, kSequence);
    packet_.message(field::packet::kTrackDescriptor, descriptor);
    put_packet();
  }

  void slice(const Slice& slice) override {
    start_event(kBegin, slice.track);
    describe(slice.category, slice.name, slice.annotations);
    for (const FlowId flow : slice.flows_out) {
      event_.fixed64(field::event::kFlow, flow);
    }
    for (const FlowId flow : slice.flows_in) {
      event_.fixed64(field::event::kLastFlow, flow);
    }
    put_event(slice.begin_ns);
    if (slice.end_ns) {
      start_event(kEnd, slice.track);
      put_event(*slice.end_ns);
    }
  }

  void instant(const Instant& instant) override {
    start_event(kInstant, instant.track);
    describe(instant.category, instant.name, instant.annotations);
    put_event(instant.time_ns);
  }

  void counter(TrackId track, int64_t time_ns, double value) override {
    start_event(kCounterValue, track);
    event_.real(field::event::kRealValue, value);
    put_event(time_ns);
  }
  void counter(TrackId track, int64_t time_ns, int64_t value) override {
    start_event(kCounterValue, track);
    event_.integer(field::event::kIntegerValue, value);
    put_event(time_ns);
  }

  Status finish() override {
    put_bundle();
    return status_;
  }
  [[nodiscard]] const Status& status() const override { return status_; }

 private:
  void start_event(uint64_t type, TrackId track) {
    event_.clear();
    interned_.clear();
    event_.varint(field::event::kType, type);
    event_.varint(field::event::kTrack, track);
  }

  void describe(const char* category, std::string_view name, Annotations annotations) {
    event_.varint(field::event::kCategory, categories_.literal(category, interned_));
    if (const uint64_t id = names_.id(name, interned_)) {
      event_.varint(field::event::kName, id);
    } else {
      event_.bytes(field::event::kNameText, shown_text(name));
    }
    for (const Annotation& annotation : annotations) {
      annotation_.clear();
      annotation_.varint(field::annotation::kName, annotation_names_.literal(annotation.name, interned_));
      std::visit([this](const auto& value) { put_value(value); }, annotation.value);
      event_.message(field::event::kAnnotation, annotation_);
    }
  }

  void put_value(int64_t value) { annotation_.integer(field::annotation::kSigned, value); }
  void put_value(uint64_t value) { annotation_.varint(field::annotation::kUnsigned, value); }
  void put_value(double value) { annotation_.real(field::annotation::kReal, value); }
  void put_value(bool value) { annotation_.varint(field::annotation::kBool, value ? 1 : 0); }
  void put_value(const Hex& hex) { annotation_.varint(field::annotation::kPointer, hex.value); }
  void put_value(const UniqueText& unique) { annotation_.bytes(field::annotation::kText, shown_text(unique.text)); }
  void put_value(std::string_view text) {
    if (const uint64_t id = texts_.id(text, interned_)) {
      annotation_.varint(field::annotation::kInternedText, id);
    } else {
      put_value(UniqueText{text});
    }
  }

  /// A time before zero, which the sequence's clock can't hold, is written as UTC.
  void put_event(int64_t time_ns) {
    packet_.clear();
    if (time_ns >= zero_ns_) {
      packet_.varint(field::packet::kTimestamp, static_cast<uint64_t>(time_ns - zero_ns_));
    } else {
      packet_.varint(field::packet::kTimestamp, static_cast<uint64_t>(std::max<int64_t>(time_ns, 0)));
      packet_.varint(field::packet::kClockId, kRealtime);
    }
    packet_.varint(field::packet::kSequenceId, kSequence);
    packet_.varint(field::packet::kSequenceFlags, kNeedsState);
    if (!interned_.empty()) {
      packet_.message(field::packet::kInternedData, interned_);
    }
    packet_.message(field::packet::kTrackEvent, event_);
    put_packet();
  }

  void put_packet() {
    bundle_.message(field::kTracePacket, packet_);
    if (bundle_.content().size() >= kBundleBytes) {
      put_bundle();
    }
  }

  void put_bundle() {
    if (status_ && !bundle_.empty()) {
      status_ = options_.compress ? put_compressed() : sink_(bundle_.content());
    }
    bundle_.clear();
  }

  Status put_compressed() {
    const std::string& plain = bundle_.content();
    compressed_.resize(::compressBound(plain.size()));
    uLongf size = compressed_.size();
    if (::compress2(reinterpret_cast<Bytef*>(compressed_.data()), &size, reinterpret_cast<const Bytef*>(plain.data()),
                    plain.size(), Z_BEST_SPEED) != Z_OK) {
      return fail("zlib could not compress a part of the trace");
    }
    packet_.clear();
    packet_.bytes(field::packet::kCompressedPackets, std::string_view(compressed_).substr(0, size));
    ProtoMessage outer;
    outer.message(field::kTracePacket, packet_);
    return sink_(outer.content());
  }

  ByteSink sink_;
  PerfettoOptions options_;
  Status status_;
  int64_t zero_ns_ = 0;
  ProtoMessage bundle_, packet_, event_, annotation_, interned_;
  std::string compressed_;
  Interned categories_{field::interned::kCategories};
  Interned names_{field::interned::kNames};
  Interned annotation_names_{field::interned::kAnnotationNames};
  Interned texts_{field::interned::kTexts};
};

}  // namespace

std::unique_ptr<TraceEncoder> make_perfetto_encoder(ByteSink sink, const PerfettoOptions& options) {
  return std::make_unique<PerfettoEncoder>(std::move(sink), options);
}

}  // namespace stalltrace::trace_export
