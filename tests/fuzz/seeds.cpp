// SPDX-License-Identifier: Apache-2.0
// seeds FOLDER: the boxes a fuzzer starts from: empty, busy, wrapped, one with every kind of event, one whose process
// was paused, and one of calls of which NCCL reported no end.
#include <string>

#include "blackbox/testing/made_box.h"

using stalltrace::blackbox::MadeBox;

namespace {

constexpr uint64_t kStart = 2'000'000'000;

st_box_event called(st_box_type type, uint64_t parent, uint64_t start_ns) {
  st_box_event event = MadeBox::collective(0, start_ns, start_ns + 500);
  event.type = type;
  event.parent = parent;
  event.u = {};
  return event;
}

/// A group of calls: one that launched a collective, one that launched nothing, one by the copy engines; and a Send of
/// the rank to itself.
MadeBox calls_without_ends() {
  MadeBox box;
  st_box_event group = called(ST_BOX_GROUP_API, 0, kStart);
  group.u.api.end_entered_ns = kStart + 5000;
  box.append(group);
  const uint64_t parent = box.ring[0].id;
  for (uint64_t ordinal = 1; ordinal <= 3; ++ordinal) {
    st_box_event api = called(ST_BOX_COLL_API, parent, kStart + 1000 * ordinal);
    api.u.api.operation = ST_BOX_OP_BROADCAST;
    api.u.api.count = 1024;
    api.u.api.datatype = 7;
    api.u.api.call_ordinal = ordinal;
    box.append(api);
  }
  st_box_event launched = MadeBox::collective(0, kStart + 6000, kStart + 9000);
  launched.parent = box.ring[1].id;
  box.append(launched);
  st_box_event copy = called(ST_BOX_CE_COLL, box.ring[2].id, kStart + 7000);
  copy.u.ce.operation = ST_BOX_OP_ALL_GATHER;
  copy.u.ce.call_ordinal = 2;
  box.append(copy);
  st_box_event own = MadeBox::collective(0, kStart + 8000, 0);
  own.type = ST_BOX_P2P;
  own.u.coll.operation = ST_BOX_OP_SEND;
  own.u.coll.root_or_peer = own.rank;
  box.put(0, own, ST_BOX_ENDED);
  return box;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
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
  calls_without_ends().write(folder + "/calls");
}
