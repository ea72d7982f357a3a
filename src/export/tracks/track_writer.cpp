// SPDX-License-Identifier: Apache-2.0
#include "export/tracks/track_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/hash.h"

namespace stalltrace::trace_export {
namespace {

constexpr uint64_t kEventsPerQuestion = 4096;  // "stopped?" may be a system call
/// Tracks are ordered by kind, then by when they were first needed.
constexpr int32_t kOrdersOfKind = 50'000'000;

int32_t order_of(RowKind kind, int32_t number) {
  return static_cast<int32_t>(kind) * kOrdersOfKind + std::min(number, kOrdersOfKind - 1);
}

/// The annotations and one more.
std::vector<Annotation> with(Annotations annotations, const Annotation& more) {
  std::vector<Annotation> all(annotations.begin(), annotations.end());
  all.push_back(more);
  return all;
}

}  // namespace

size_t TrackWriter::KeyHash::operator()(const Key& key) const {
  return static_cast<size_t>(
      splitmix64_mix(key.which ^ (uint64_t{key.parent} << 32U) ^ (static_cast<uint64_t>(key.kind) << 24U)));
}

TrackId TrackWriter::declare(Track track) {
  if (summary_.tracks >= kMostTracks) {
    return kNoTrack;
  }
  track.id = static_cast<TrackId>(++summary_.tracks);
  encoder_.track(track);
  return track.id;
}

TrackId TrackWriter::process(const std::string& name, int32_t pid) {
  if (pid <= 0 || pids_.contains(pid)) {
    pid = next_pid_++;
  }
  const TrackId id = declare({.kind = TrackKind::kProcess, .name = name, .pid = pid, .order = next_order_++});
  pids_.emplace(pid, id);
  return id;
}

TrackWriter::Subtracks& TrackWriter::subtracks(const Row& row) {
  const auto [found, fresh] = rows_.try_emplace(Key{row.parent, row.kind, row.which});
  if (fresh) {
    found->second.name = row.name();
    found->second.order = next_order_++;
  }
  return found->second;
}

TrackId TrackWriter::first_subtrack(const Row& row, TrackKind kind, const char* unit) {
  if (row.parent == kNoTrack ||
      (summary_.tracks >= kMostTracks && !rows_.contains({row.parent, row.kind, row.which}))) {
    return kNoTrack;
  }
  Subtracks& group = subtracks(row);
  if (group.subtracks.empty()) {
    const TrackId id = declare({.parent = row.parent,
                                .kind = kind,
                                .name = group.name,
                                .unit = unit,
                                .order = order_of(row.kind, group.order)});
    if (id == kNoTrack) {
      return kNoTrack;
    }
    group.subtracks.push_back({id, 0});
  }
  return group.subtracks.front().track;
}

TrackId TrackWriter::folder(TrackId parent, RowKind kind, uint64_t which, Name name) {
  return first_subtrack({parent, kind, which, name}, TrackKind::kFolder, "");
}

bool TrackWriter::slice(const Row& row, Slice slice) {
  if (!going_on()) {
    return false;
  }
  if (slice.end_ns && *slice.end_ns < slice.begin_ns) {
    ++summary_.reversed;
    const auto annotations =
        with(slice.annotations, {"problem", std::string_view("ends before it begins, by this many ns")});
    instant(row, {.category = slice.category,
                  .name = slice.name,
                  .time_ns = slice.begin_ns,
                  .annotations = with(annotations, {"reversed_ns", slice.begin_ns - *slice.end_ns})});
    return false;
  }
  if (first_subtrack(row, TrackKind::kEvents, "") == kNoTrack) {
    ++summary_.left_out;
    return false;
  }
  Subtracks& group = subtracks(row);
  auto subtrack =
      std::ranges::find_if(group.subtracks, [&](const Subtrack& one) { return one.end_ns <= slice.begin_ns; });
  if (subtrack == group.subtracks.end()) {
    const TrackId id = group.subtracks.size() >= kMostSubtracks
                           ? kNoTrack
                           : declare({.parent = row.parent,
                                      .kind = TrackKind::kEvents,
                                      .name = fmt::format("{} ({})", group.name, group.subtracks.size() + 1),
                                      .order = order_of(row.kind, group.order)});
    if (id == kNoTrack) {
      ++summary_.crowded;
      instant(row, {.category = slice.category,
                    .name = slice.name,
                    .time_ns = slice.begin_ns,
                    .annotations = with(slice.annotations,
                                        {"problem", std::string_view("too many at once: shown without its length")})});
      return false;
    }
    subtrack = group.subtracks.insert(group.subtracks.end(), {id, 0});
  }
  subtrack->end_ns = slice.end_ns.value_or(kForever);
  slice.track = subtrack->track;
  ++summary_.slices;
  summary_.unended += slice.end_ns ? 0 : 1;
  summary_.flows += slice.flows_in.size();
  encoder_.slice(slice);
  return true;
}

void TrackWriter::instant(const Row& row, Instant instant) {
  instant.track = going_on() ? first_subtrack(row, TrackKind::kEvents, "") : kNoTrack;
  if (instant.track == kNoTrack) {
    ++summary_.left_out;
    return;
  }
  ++summary_.instants;
  encoder_.instant(instant);
}

TrackId TrackWriter::counter_track(const Row& row, const char* unit) {
  const TrackId track = going_on() ? first_subtrack(row, TrackKind::kCounter, unit) : kNoTrack;
  ++(track == kNoTrack ? summary_.left_out : summary_.counter_values);
  return track;
}

void TrackWriter::counter(const Row& row, const char* unit, int64_t time_ns, int64_t value) {
  if (const TrackId track = counter_track(row, unit)) {
    encoder_.counter(track, time_ns, value);
  }
}

void TrackWriter::counter(const Row& row, const char* unit, int64_t time_ns, double value) {
  if (!std::isfinite(value)) {
    ++summary_.left_out;
  } else if (const TrackId track = counter_track(row, unit)) {
    encoder_.counter(track, time_ns, value);
  }
}

bool TrackWriter::going_on() {
  if (++events_ % kEventsPerQuestion == 0 && stopped_ && stopped_()) {
    was_stopped_ = true;
  }
  return !was_stopped_ && encoder_.status();
}

Status TrackWriter::status() const {
  return was_stopped_ ? fail("interrupted: nothing was written", {}, ErrorKind::kInterrupted) : encoder_.status();
}

}  // namespace stalltrace::trace_export
