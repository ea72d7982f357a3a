// SPDX-License-Identifier: Apache-2.0
// Synthetic profiler files for tests, built byte by byte.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "plugin/wire/blackbox.h"

namespace stalltrace::blackbox {

/// A small valid file for tests to modify.
struct MadeProfilerFile {
  static constexpr uint64_t kCommunicators = 4;
  static constexpr uint64_t kSlots = 8;
  static constexpr uint64_t kRing = 16;
  static constexpr uint16_t kTag = 0x77;

  MadeProfilerFile() {
    std::memcpy(header.magic, ST_BOX_MAGIC, sizeof header.magic);
    header.version = ST_BOX_VERSION;
    header.byte_order = ST_BOX_BYTE_ORDER;
    header.header_bytes = sizeof(st_box_header);
    header.communicator_bytes = sizeof(st_box_communicator);
    header.event_bytes = sizeof(st_box_event);
    header.communicator_offset = sizeof(st_box_header);
    header.communicator_capacity = kCommunicators;
    header.slot_offset = header.communicator_offset + kCommunicators * sizeof(st_box_communicator);
    header.slot_capacity = kSlots;
    header.ring_offset = header.slot_offset + kSlots * sizeof(st_box_event);
    header.ring_capacity = kRing;
    header.file_bytes = header.ring_offset + kRing * sizeof(st_box_event);
    header.pid = 4711;
    header.process_tag = kTag;
    header.created_ns = 1'000'000'000;
    header.env_rank = 1;
    header.env_local_rank = -1;
    header.env_world_size = 2;
    header.anchors[0] = {1'000'000'000, 1'769'827'620'000'000'000};
    header.anchored_ns = 1'000'000'000;
    std::strcpy(header.hostname, "host");
    std::strcpy(header.command, "train --fast");
    communicators[0] = {.serial = 1, .hash = 0xabc, .rank = 1, .ranks = 2, .nodes = 1, .created_ns = 1'000'000'100};
  }

  static st_box_event collective(uint64_t number, uint64_t start_ns, uint64_t end_ns) {
    st_box_event event{};
    event.start_ns = start_ns;
    event.end_ns = end_ns;
    event.communicator = 1;
    event.tid = 4712;
    event.type = ST_BOX_COLL;
    event.rank = 1;
    event.u.coll.call_number = number;
    event.u.coll.count = 1024;
    event.u.coll.datatype = 7;
    event.u.coll.operation = ST_BOX_OP_ALL_REDUCE;
    event.u.coll.enqueued_ns = start_ns + 5000;
    return event;
  }

  /// Changes the file's capacities, for example to the plugin's.
  void resize(uint64_t slot_capacity, uint64_t ring_capacity) {
    slots.resize(slot_capacity);
    ring.resize(ring_capacity);
    header.slot_capacity = slot_capacity;
    header.ring_capacity = ring_capacity;
    header.ring_offset = header.slot_offset + slot_capacity * sizeof(st_box_event);
    header.file_bytes = header.ring_offset + ring_capacity * sizeof(st_box_event);
  }

  /// Appends the event to the ring as the next record.
  void append(st_box_event event) {
    event.id = uint64_t{kTag} << ST_BOX_ID_TAG_SHIFT | (100 + header.ring_head) << ST_BOX_ID_GENERATION_SHIFT;
    append_as_it_is(event);
  }

  /// Appends the content of slot `index` to the ring.
  void append_slot(uint64_t index) { append_as_it_is(slots[index]); }

  /// Puts the event into slot `index`, in `phase`.
  void put(uint64_t index, st_box_event event, uint64_t phase) {
    constexpr uint64_t kGeneration = 3;
    event.id = uint64_t{kTag} << ST_BOX_ID_TAG_SHIFT | kGeneration << ST_BOX_ID_GENERATION_SHIFT | index;
    event.commit = kGeneration << ST_BOX_SLOT_GENERATION_SHIFT | phase;
    slots[index] = event;
  }

  [[nodiscard]] std::string bytes() const {
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    const auto add = [&](const auto& part) {
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size() * sizeof part[0]);
    };
    add(communicators);
    add(slots);
    add(ring);
    return bytes;
  }

  void write(const std::string& path) const {
    const std::string content = bytes();
    std::ofstream(path, std::ios::binary) << content;
  }

  void append_as_it_is(st_box_event event) {
    event.commit = ST_BOX_RING_WHOLE(header.ring_head);
    ring[header.ring_head++ % ring.size()] = event;
  }

  st_box_header header{};
  std::vector<st_box_communicator> communicators = std::vector<st_box_communicator>(kCommunicators);
  std::vector<st_box_event> slots = std::vector<st_box_event>(kSlots);
  std::vector<st_box_event> ring = std::vector<st_box_event>(kRing);
};

}  // namespace stalltrace::blackbox
