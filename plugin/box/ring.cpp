// SPDX-License-Identifier: Apache-2.0
#include "plugin/box/ring.h"

#include <cstddef>

namespace stalltrace::plugin {
namespace {

constexpr uint64_t kAnchorInterval_ns = 10'000'000'000;

/// The narrowest of several readings of one clock between two of the other.
st_box_clock_anchor read_clocks() {
  st_box_clock_anchor best{};
  uint64_t best_width = UINT64_MAX;
  for (int attempt = 0; attempt < 4; ++attempt) {
    const uint64_t before = now_ns();
    const uint64_t realtime = clock_ns(CLOCK_REALTIME);
    const uint64_t after = now_ns();
    if (after - before < best_width) {
      best_width = after - before;
      best = {before + (after - before) / 2, realtime};
    }
  }
  return best;
}

}  // namespace

void append(Box& box, const Event& event) {
  const uint64_t number = add<uint64_t>(box.header->ring_head, 1);
  Event& record = box.ring[number & box.ring_mask];
  uint64_t before = load(record.commit);
  const bool held = (before & 1) != 0;  // by a writer that was interrupted for a whole lap
  const bool overtaken = before >= ST_BOX_RING_WHOLE(number);
  if (held || overtaken || !replace<uint64_t>(record.commit, before, ST_BOX_RING_WRITING(number))) {
    count_loss(box, ST_BOX_LOST_LAPPED);
    return;
  }
  std::atomic_thread_fence(std::memory_order_release);  // WRITING becomes visible before the data written now
  copy_words(&record.id, &event.id, sizeof(Event) - offsetof(Event, id));
  store<uint64_t>(record.commit, ST_BOX_RING_WHOLE(number), std::memory_order_release);
}

void anchor_clocks(Box& box) {
  const st_box_clock_anchor clocks = read_clocks();
  st_box_header& header = *box.header;
  const uint64_t number = add<uint64_t>(header.anchors_written, 1);
  st_box_clock_anchor& anchor = header.anchors[number % ST_BOX_CLOCK_ANCHORS];
  store<uint64_t>(anchor.monotonic_ns, 0);
  store(anchor.realtime_ns, clocks.realtime_ns, std::memory_order_release);
  store(anchor.monotonic_ns, clocks.monotonic_ns, std::memory_order_release);
  store(header.anchored_ns, clocks.monotonic_ns);
}

void refresh_anchor(Box& box, uint64_t monotonic_now_ns) {
  uint64_t last = load(box.header->anchored_ns);
  if (monotonic_now_ns < last + kAnchorInterval_ns) {
    return;
  }
  if (replace(box.header->anchored_ns, last, monotonic_now_ns)) {
    anchor_clocks(box);
  }
}

}  // namespace stalltrace::plugin
