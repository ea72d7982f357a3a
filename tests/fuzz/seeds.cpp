// SPDX-License-Identifier: Apache-2.0
// seeds FOLDER: the boxes a fuzzer starts from: empty, busy, wrapped, one with every kind of event, and one whose
// process was paused.
#include <string>

#include "blackbox/testing/made_box.h"

using stalltrace::blackbox::MadeBox;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  constexpr uint64_t kStart = 2'000'000'000;
  MadeBox().write(folder + "/empty");
  MadeBox busy;
  MadeBox wrapped;
  for (uint64_t n = 0; n < 2 * MadeBox::kRing; ++n) {
    const st_box_event event = MadeBox::collective(n, kStart + 1000 * n, kStart + 1000 * n + 700);
    if (n < MadeBox::kRing / 2) {
      busy.append(event);
    }
    wrapped.append(event);
  }
  MadeBox all = busy;
  for (uint8_t type = ST_BOX_GROUP; type <= ST_BOX_CE_BATCH; ++type) {
    st_box_event event = MadeBox::collective(type, kStart, 0);
    event.type = type;
    event.parent = all.ring[0].id;
    all.put(type % MadeBox::kSlots, event, ST_BOX_OPEN + type % 4);
    all.append(event);
  }
  MadeBox paused = busy;
  paused.header.pulse_ns = kStart + 9'000'000'000;
  paused.header.pauses[0] = {.from_ns = kStart, .to_ns = kStart + 3'000'000'000, .runnable_ns = 1'000'000};
  paused.header.pauses[1] = {
      .from_ns = kStart + 4'000'000'000, .to_ns = kStart + 6'000'000'000, .runnable_ns = 1'900'000'000};
  busy.write(folder + "/busy");
  paused.write(folder + "/paused");
  wrapped.write(folder + "/wrapped");
  all.write(folder + "/all");
}
