// SPDX-License-Identifier: Apache-2.0
#include "blackbox/format/reader.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace stalltrace::blackbox {
namespace {

constexpr uint64_t kEventsAtOnce = 256;  // 32 KiB, which stays in a processor's cache until the second copy
constexpr size_t kMostUnfinished = 4096;
constexpr uint64_t kMostReserved = 16384;
// The bits of a slot's commit that identify one event in one state; the others may change during a copy.
constexpr uint64_t kSameEvent = ST_BOX_SLOT_GENERATION_MASK << ST_BOX_SLOT_GENERATION_SHIFT | ST_BOX_PHASE_MASK;

uint64_t slot_id(const st_box_header& layout, const st_box_event& slot, uint64_t index) {
  const uint64_t generation = slot.commit >> ST_BOX_SLOT_GENERATION_SHIFT & ST_BOX_SLOT_GENERATION_MASK;
  return uint64_t{layout.process_tag} << ST_BOX_ID_TAG_SHIFT | generation << ST_BOX_ID_GENERATION_SHIFT | index;
}

}  // namespace

Result<ProfilerFileReader> ProfilerFileReader::open(const std::string& path) {
  ST_ASSIGN(ProfilerFile file, ProfilerFile::open(path));
  return ProfilerFileReader(std::move(file));
}

Result<ProfilerFileReader> ProfilerFileReader::adopt(UniqueFd fd, const std::string& path) {
  ST_ASSIGN(ProfilerFile file, ProfilerFile::adopt(std::move(fd), path));
  return ProfilerFileReader(std::move(file));
}

/// Reads the ring before the slots: an event that ends in between is in one of the two, or in the next read.
Result<ProfilerFileContents> ProfilerFileReader::read(const ReadBounds& bounds) {
  ProfilerFileContents contents;
  contents.has_writer = file_.has_writer();  // before the bytes: without a writer they are final
  ST_TRY(read_ring(contents, bounds.most_records));
  contents.ended_in_ring = contents.ended.size();
  contents.open_parts = bounds.open_parts && contents.drained;
  if (contents.open_parts) {
    ST_TRY(read_slots(contents, bounds.ended_slots));
    ST_ASSIGN(contents.communicators, read_communicators());
  }
  ST_ASSIGN(contents.header, file_.header());
  contents.overwritten = overwritten_;
  contents.torn = torn_;
  return contents;
}

Result<std::vector<st_box_communicator>> ProfilerFileReader::read_communicators() const {
  std::vector<st_box_communicator> communicators;
  const st_box_header& layout = file_.layout();
  std::vector<st_box_communicator> before(layout.communicator_capacity);
  std::vector<st_box_communicator> after(layout.communicator_capacity);
  ST_TRY(file_.copy<st_box_communicator>(layout.communicator_offset, 0, before));
  ST_TRY(file_.copy<st_box_communicator>(layout.communicator_offset, 0, after));
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].serial != 0 && before[i].serial == after[i].serial) {
      communicators.push_back(after[i]);
    }
  }
  return communicators;
}

Status ProfilerFileReader::read_ring(ProfilerFileContents& contents, uint64_t most_records) {
  const uint64_t capacity = file_.layout().ring_capacity;
  ST_ASSIGN(const st_box_header now, file_.header());
  ST_TRY(retry_unfinished(contents));
  const uint64_t head = now.ring_head;
  const uint64_t oldest = head > capacity ? head - capacity : 0;
  if (next_ > head) {  // the head moved backwards, which the plugin never does
    return fail(file_.path() + ": its ring went backwards", "give a file that the profiler plugin wrote",
                ErrorKind::kCorrupt);
  }
  if (next_ < oldest) {
    overwritten_ += oldest - next_;
    next_ = oldest;
  }
  const uint64_t last = head - next_ > most_records ? next_ + most_records : head;
  contents.drained = last == head;
  contents.ended.reserve(std::min(last - next_, kMostReserved));
  while (next_ < last) {
    const uint64_t until_wrap = capacity - next_ % capacity;
    const uint64_t count = std::min({last - next_, until_wrap, kEventsAtOnce});
    ST_TRY(read_records(next_, count, contents));
    next_ += count;
  }
  contents.unread = head - next_ + unfinished_.size();
  return {};
}

/// Copies records [first, first + count), which do not wrap. A record that the writer may have reached again during the
/// copy counts as overwritten. A processor may read the words of one copy in any order (arm64 does), so a record is
/// valid only if an earlier copy of it was complete.
Status ProfilerFileReader::read_records(uint64_t first, uint64_t count, ProfilerFileContents& contents) {
  const st_box_header& layout = file_.layout();
  before_.resize(count);
  copy_.resize(count);
  ST_TRY(file_.copy<st_box_event>(layout.ring_offset, first % layout.ring_capacity, before_));
  ST_TRY(file_.copy<st_box_event>(layout.ring_offset, first % layout.ring_capacity, copy_));
  ST_ASSIGN(const st_box_header now, file_.header());
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t number = first + i;
    if (now.ring_head > layout.ring_capacity && number < now.ring_head - layout.ring_capacity) {
      ++overwritten_;
    } else if (before_[i].commit == ST_BOX_RING_WHOLE(number) && copy_[i].commit == before_[i].commit) {
      contents.ended.push_back(copy_[i]);
    } else if (contents.has_writer && unfinished_.size() < kMostUnfinished) {
      unfinished_.insert(number);
    } else {
      ++torn_;
    }
  }
  return {};
}

Status ProfilerFileReader::retry_unfinished(ProfilerFileContents& contents) {
  for (const uint64_t number : std::exchange(unfinished_, {})) {
    ST_TRY(read_records(number, 1, contents));
  }
  return {};
}

Status ProfilerFileReader::read_slots(ProfilerFileContents& contents, bool with_ended) {
  const uint64_t capacity = file_.layout().slot_capacity;
  for (uint64_t first = 0; first < capacity; first += kEventsAtOnce) {
    ST_TRY(read_slot_block(first, std::min(kEventsAtOnce, capacity - first), contents, with_ended));
  }
  return {};
}

/// Most slots are free: only a block with an event in it is copied again, and a third time to see which slots changed.
Status ProfilerFileReader::read_slot_block(uint64_t first, uint64_t count, ProfilerFileContents& contents,
                                           bool with_ended) {
  const st_box_header& layout = file_.layout();
  const auto counts = [&](const st_box_event& slot, uint64_t index) {
    const uint64_t phase = slot.commit & ST_BOX_PHASE_MASK;
    return phase >= ST_BOX_OPEN && phase <= (with_ended ? ST_BOX_CLOSING : ST_BOX_ENDED) &&
           slot.id == slot_id(layout, slot, index);
  };
  before_.resize(count);
  ST_TRY(file_.copy<st_box_event>(layout.slot_offset, first, before_));
  bool copied = false;
  for (uint64_t i = 0; i < count; ++i) {
    if (!counts(before_[i], first + i)) {
      continue;
    }
    if (!std::exchange(copied, true)) {
      copy_.resize(count);
      after_.resize(count);
      ST_TRY(file_.copy<st_box_event>(layout.slot_offset, first, copy_));
      ST_TRY(file_.copy<st_box_event>(layout.slot_offset, first, after_));
    }
    const st_box_event& slot = copy_[i];
    const uint64_t event = slot.commit & kSameEvent;
    if ((before_[i].commit & kSameEvent) != event || (after_[i].commit & kSameEvent) != event ||
        !counts(slot, first + i)) {
      continue;
    }
    const uint64_t phase = slot.commit & ST_BOX_PHASE_MASK;
    // QUIET and CLOSING: the writer may have been killed before it wrote the ring record.
    (phase == ST_BOX_OPEN || phase == ST_BOX_ENDED ? contents.open : contents.ended).push_back(slot);
  }
  return {};
}

std::string text_of(std::span<const char> field) {
  return printable({field.data(), static_cast<size_t>(std::find(field.begin(), field.end(), '\0') - field.begin())});
}

bool end_unobserved(const st_box_event& event) {
  const st_box_coll& coll = event.u.coll;
  const bool open_part = coll.ops_started != coll.ops_ended || coll.kernels_started != coll.kernels_ended;
  const bool expects = (event.flags & ST_BOX_KERNEL_EXPECTED) != 0 && st_box_is_own_transfer(&event) == 0;
  return coll.enqueued_ns != 0 && !open_part && !expects;
}

}  // namespace stalltrace::blackbox
