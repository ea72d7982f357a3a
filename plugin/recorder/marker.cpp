// SPDX-License-Identifier: Apache-2.0
#include "plugin/recorder/marker.h"

// NOLINTBEGIN: names that the tracer looks for
extern "C" {

/// In a section of its own, as the kernel requires: in the file, and writable.
[[gnu::visibility("default"), gnu::used, gnu::section(".probes")]] uint16_t stalltrace_step_moved_semaphore = 0;

[[gnu::visibility("default"), gnu::used, gnu::noinline]] void stalltrace_step_moved(const st_step_moved* step) {
  asm volatile("" : : "r"(step) : "memory");
}
}
// NOLINTEND

namespace stalltrace::plugin {
namespace {

/// A trap is expensive, so a connection is reported in runs of a few steps; the distance between runs grows fourfold.
constexpr uint32_t kRun = 4;
constexpr uint64_t kNextRun = 4;

/// The count of steps of one kind.
struct Counted {
  st_step_count moved;
  uint64_t next_reported;  // the step to report next
  uint32_t reported;       // in this run
  uint32_t semaphore;      // its value when the run began
};
/// One direction between two ranks on one channel. Open addressing, never emptied while a communicator lives.
struct Connection {
  uint64_t key;  // 0 unused
  Counted kinds[ST_STEP_KINDS];
};
constexpr uint64_t kConnections = 4096;
constexpr uint64_t kProbes = 32;
constinit Connection connections[kConnections] = {};

struct Operations {
  uint64_t open;
  uint64_t alone_since_ns;  // 0: several are open
};
constinit Operations operations[2] = {};  // 0 receive, 1 send

bool is_send_side(const Event& event) { return (event.flags & ST_BOX_SEND_SIDE) != 0; }
uint8_t kind_of(const Event& step) { return (step.flags & ST_BOX_OF_P2P) != 0 ? ST_STEP_P2P : ST_STEP_COLLECTIVE; }

uint64_t key_of(const Event& step) {
  const auto peer = static_cast<uint64_t>(static_cast<uint32_t>(step.u.proxy_step.peer)) & 0xffffff;
  return uint64_t{step.communicator} << 40 ^ peer << 16 ^ uint64_t { step.channels } << 2 ^
         (is_send_side(step) ? 3U : 1U);
}

Connection* connection_of(uint64_t key) {
  uint64_t slot = key * 0x9e3779b97f4a7c15 >> 40;
  for (uint64_t probe = 0; probe < kProbes; ++probe, ++slot) {
    Connection& entry = connections[slot % kConnections];
    uint64_t found = load(entry.key);
    if (found == 0 && replace(entry.key, found, key)) {
      found = key;
    }
    if (found == key) {
      return &entry;
    }
  }
  return nullptr;
}

const Communicator* communicator_of_serial(const Box& box, uint32_t serial) {
  for (uint64_t index = 0; index < box.header->communicator_capacity; ++index) {
    const Communicator& entry = box.communicators[index];
    if (static_cast<uint32_t>(load(entry.serial, std::memory_order_acquire)) == serial) {
      return &entry;
    }
  }
  return nullptr;
}

uint64_t alone_since(const Event& step) {
  const Operations& direction = operations[is_send_side(step) ? 1 : 0];
  const uint64_t since_ns = load(direction.open) == 1 ? load(direction.alone_since_ns) : 0;
  return since_ns == 0 || since_ns > step.start_ns ? since_ns : step.start_ns;
}

/// Whether this step, already counted, should be reported.
bool is_due(Counted& counted, uint32_t semaphore) {
  if (load(counted.semaphore) != semaphore) {  // a tracer has attached
    store(counted.semaphore, semaphore);
    store<uint32_t>(counted.reported, 0);
    store<uint64_t>(counted.next_reported, 0);
  }
  const uint64_t steps = load(counted.moved.steps);
  if (steps < load(counted.next_reported)) {
    return false;
  }
  const uint32_t reported = load(counted.reported) + 1;
  store<uint32_t>(counted.reported, reported == kRun ? 0 : reported);
  if (reported == kRun) {
    store<uint64_t>(counted.next_reported, steps * kNextRun);
  }
  return true;
}

st_step_count count_of(const Counted& counted) {
  return {.steps = load(counted.moved.steps), .bytes = load(counted.moved.bytes)};
}

st_step_count count_of_all(const Connection& connection) {
  st_step_count all{};
  for (const Counted& counted : connection.kinds) {
    const auto [steps, bytes] = count_of(counted);
    all.steps += steps;
    all.bytes += bytes;
  }
  return all;
}

[[gnu::noinline, gnu::cold]] void fire_marker(const Box& box, const Event& step, uint16_t semaphore) {
  if (st_step_moved moved; describe_step(box, step, semaphore, moved)) {
    stalltrace_step_moved(&moved);
  }
}

}  // namespace

bool describe_step(const Box& box, const Event& step, uint16_t semaphore, st_step_moved& moved) {
  Connection* connection =
      step.communicator != 0 && step.u.proxy_step.peer >= 0 ? connection_of(key_of(step)) : nullptr;
  if (connection == nullptr) {
    return false;
  }
  const uint64_t bytes = load(step.u.proxy_step.transferred_bytes);
  const uint8_t kind = kind_of(step);
  Counted& own = connection->kinds[kind];
  add<__u64>(own.moved.steps, 1);
  add<__u64>(own.moved.bytes, bytes);
  const uint64_t alone_since_ns = alone_since(step);
  if ((alone_since_ns == 0 && bytes < ST_MARKER_LEAST_BYTES) || !is_due(own, semaphore)) {
    return false;
  }
  const Communicator* communicator = communicator_of_serial(box, step.communicator);
  if (communicator == nullptr) {
    return false;
  }
  moved = {.size = sizeof(moved),
           .version = ST_MARKER_VERSION,
           .comm_hash = load(communicator->hash),
           .own = count_of(own),
           .all = count_of_all(*connection),
           .alone_since_ns = alone_since_ns,
           .rank = load(communicator->rank),
           .ranks = communicator->ranks,
           .peer = step.u.proxy_step.peer,
           .channel = step.channels,
           .is_send = static_cast<uint8_t>(is_send_side(step) ? 1 : 0),
           .kind = kind};
  return true;
}

void report_step_moved(Box& box, const Event& step) {
  if (const uint16_t semaphore = load(stalltrace_step_moved_semaphore); semaphore != 0) [[unlikely]] {
    fire_marker(box, step, semaphore);
  }
}

void count_operation_start(bool is_send, uint64_t now) {
  Operations& direction = operations[is_send ? 1 : 0];
  const bool alone = add<uint64_t>(direction.open, 1) == 0;
  store<uint64_t>(direction.alone_since_ns, alone ? now : 0);
}

void count_operation_end(bool is_send, uint64_t now) {
  Operations& direction = operations[is_send ? 1 : 0];
  if (add<uint64_t>(direction.open, UINT64_MAX) == 2) {
    store<uint64_t>(direction.alone_since_ns, now);
  }
}

void forget_connections() {
  for (Connection& entry : connections) {
    if (load(entry.key) != 0) {
      entry = {};
    }
  }
  operations[0] = operations[1] = {};
}

}  // namespace stalltrace::plugin
