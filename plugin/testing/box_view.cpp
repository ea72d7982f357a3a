// SPDX-License-Identifier: Apache-2.0
#include "plugin/testing/box_view.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace stalltrace::plugin::testing {
namespace {

template <typename T>
T at(const std::string& bytes, uint64_t offset) {
  if (offset + sizeof(T) > bytes.size()) {
    throw std::runtime_error("the file is shorter than its header states");
  }
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

void read_slots(const std::string& bytes, BoxView* view) {
  for (uint64_t index = 0; index < view->header.slot_capacity; ++index) {
    const auto event = at<st_box_event>(bytes, view->header.slot_offset + index * sizeof(st_box_event));
    const uint64_t phase = event.commit & ST_BOX_PHASE_MASK;
    const uint64_t generation = event.commit >> ST_BOX_SLOT_GENERATION_SHIFT & ST_BOX_SLOT_GENERATION_MASK;
    const bool own = event.id == (uint64_t{view->header.process_tag} << ST_BOX_ID_TAG_SHIFT |
                                  generation << ST_BOX_ID_GENERATION_SHIFT | index);
    if (!own) {
      continue;
    }
    if (phase == ST_BOX_OPEN || phase == ST_BOX_ENDED || phase == ST_BOX_CLOSING) {
      view->open.push_back(event);
    } else if (phase == ST_BOX_QUIET) {
      view->quiet.push_back(event);
    }
  }
}

void read_ring(const std::string& bytes, BoxView* view) {
  const uint64_t head = view->header.ring_head;
  const uint64_t capacity = view->header.ring_capacity;
  for (uint64_t number = head > capacity ? head - capacity : 0; number < head; ++number) {
    const auto event = at<st_box_event>(bytes, view->header.ring_offset + number % capacity * sizeof(st_box_event));
    if (event.commit == ST_BOX_RING_WHOLE(number)) {
      view->ended.push_back(event);
    } else {
      ++view->unreadable;
    }
  }
}

}  // namespace

std::map<uint64_t, st_box_event> BoxView::latest() const {
  std::map<uint64_t, st_box_event> result;
  for (const st_box_event& event : ended) {
    result[event.id] = event;
  }
  return result;
}

std::vector<st_box_event> BoxView::of_type(st_box_type type) const {
  std::vector<st_box_event> result;
  for (const auto& [id, event] : latest()) {
    if (event.type == type) {
      result.push_back(event);
    }
  }
  std::sort(result.begin(), result.end(),
            [](const st_box_event& one, const st_box_event& other) { return one.start_ns < other.start_ns; });
  return result;
}

BoxView read_box(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  BoxView view;
  view.header = at<st_box_header>(bytes, 0);
  if (std::memcmp(view.header.magic, ST_BOX_MAGIC, sizeof(view.header.magic)) != 0) {
    throw std::runtime_error("not a profiler file: " + path);
  }
  for (uint64_t index = 0; index < view.header.communicator_capacity; ++index) {
    const auto entry =
        at<st_box_communicator>(bytes, view.header.communicator_offset + index * sizeof(st_box_communicator));
    if (entry.serial != 0) {
      view.communicators.push_back(entry);
    }
  }
  read_slots(bytes, &view);
  read_ring(bytes, &view);
  return view;
}

std::vector<std::string> find_boxes(const std::string& folder) {
  std::vector<std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".profiler") {
      result.push_back(entry.path().string());
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace stalltrace::plugin::testing
