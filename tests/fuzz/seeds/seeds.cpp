// SPDX-License-Identifier: Apache-2.0
// seeds FOLDER: the seed files of a fuzzer: empty, busy, wrapped, one with every kind of event, one whose process was
// paused, and one with calls whose ends NCCL does not report.
#include <string>

#include "blackbox/testing/made_profiler_file.h"

using stalltrace::blackbox::MadeProfilerFile;

namespace {

constexpr uint64_t kStart = 2'000'000'000;

st_box_event called(st_box_type type, uint64_t parent, uint64_t start_ns) {
  st_box_event event = MadeProfilerFile::collective(0, start_ns, start_ns + 500);
  event.type = type;
  event.parent = parent;
  event.u = {};
  return event;
}

/// A group of calls: one launched a collective, one launched nothing, one used the copy engines; and a Send of the rank
/// to itself.
MadeProfilerFile calls_without_ends() {
  MadeProfilerFile file;
  st_box_event group = called(ST_BOX_GROUP_API, 0, kStart);
  group.u.api.end_entered_ns = kStart + 5000;
  file.append(group);
  const uint64_t parent = file.ring[0].id;
  for (uint64_t ordinal = 1; ordinal <= 3; ++ordinal) {
    st_box_event api = called(ST_BOX_COLL_API, parent, kStart + 1000 * ordinal);
    api.u.api.operation = ST_BOX_OP_BROADCAST;
    api.u.api.count = 1024;
    api.u.api.datatype = 7;
    api.u.api.call_ordinal = ordinal;
    file.append(api);
  }
  st_box_event launched = MadeProfilerFile::collective(0, kStart + 6000, kStart + 9000);
  launched.parent = file.ring[1].id;
  file.append(launched);
  st_box_event copy = called(ST_BOX_CE_COLL, file.ring[2].id, kStart + 7000);
  copy.u.ce.operation = ST_BOX_OP_ALL_GATHER;
  copy.u.ce.call_ordinal = 2;
  file.append(copy);
  st_box_event own = MadeProfilerFile::collective(0, kStart + 8000, 0);
  own.type = ST_BOX_P2P;
  own.u.coll.operation = ST_BOX_OP_SEND;
  own.u.coll.root_or_peer = own.rank;
  file.put(0, own, ST_BOX_ENDED);
  return file;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  MadeProfilerFile().write(folder + "/empty");
  MadeProfilerFile busy;
  MadeProfilerFile wrapped;
  for (uint64_t n = 0; n < 2 * MadeProfilerFile::kRing; ++n) {
    const st_box_event event = MadeProfilerFile::collective(n, kStart + 1000 * n, kStart + 1000 * n + 700);
    if (n < MadeProfilerFile::kRing / 2) {
      busy.append(event);
    }
    wrapped.append(event);
  }
  MadeProfilerFile all = busy;
  for (uint8_t type = ST_BOX_GROUP; type <= ST_BOX_CE_BATCH; ++type) {
    st_box_event event = MadeProfilerFile::collective(type, kStart, 0);
    event.type = type;
    event.parent = all.ring[0].id;
    all.put(type % MadeProfilerFile::kSlots, event, ST_BOX_OPEN + type % 4);
    all.append(event);
  }
  MadeProfilerFile paused = busy;
  paused.header.heartbeat_ns = kStart + 9'000'000'000;
  paused.header.pauses[0] = {.from_ns = kStart, .to_ns = kStart + 3'000'000'000, .runnable_ns = 1'000'000};
  paused.header.pauses[1] = {
      .from_ns = kStart + 4'000'000'000, .to_ns = kStart + 6'000'000'000, .runnable_ns = 1'900'000'000};
  busy.write(folder + "/busy");
  paused.write(folder + "/paused");
  wrapped.write(folder + "/wrapped");
  all.write(folder + "/all");
  calls_without_ends().write(folder + "/calls");
}
