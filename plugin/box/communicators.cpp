// SPDX-License-Identifier: Apache-2.0
#include "plugin/box/communicators.h"

#include <cstddef>
#include <cstring>

namespace stalltrace::plugin {
namespace {

// A context: tag << 48 | index << 32 | serial.
constexpr int kTagShift = 48;
constexpr int kIndexShift = 32;

/// An unused entry, else the one that ended longest ago; capacity if all are alive.
uint64_t find_slot(Box& box) {
  const uint64_t capacity = box.header->communicator_capacity;
  uint64_t oldest = capacity;
  for (uint64_t index = 0; index < capacity; ++index) {
    const Communicator& entry = box.communicators[index];
    if (entry.serial == 0) {
      return index;
    }
    const bool ended = entry.destroyed_ns != 0;
    if (ended && (oldest == capacity || entry.destroyed_ns < box.communicators[oldest].destroyed_ns)) {
      oldest = index;
    }
  }
  return oldest;
}

/// Counts of sends and receives by communicator and peer. Open addressing, never emptied while a communicator lives.
struct TransferCount {
  uint64_t key;  // 0 unused
  uint64_t count;
};
constexpr uint64_t kTransferCounts = 16384;
constexpr uint64_t kTransferProbes = 64;
constinit TransferCount transfer_counts[kTransferCounts] = {};

}  // namespace

uint64_t add_communicator(Box& box, const CommunicatorInfo& info) {
  const uint64_t index = find_slot(box);
  const uint64_t tag = box.tag << kTagShift;
  if (index == box.header->communicator_capacity) {
    count_loss(box, ST_BOX_LOST_NO_COMMUNICATOR);
    return tag;
  }
  Communicator& entry = box.communicators[index];
  store<uint64_t>(entry.serial, 0);
  std::atomic_thread_fence(std::memory_order_release);
  std::memset(reinterpret_cast<char*>(&entry) + sizeof(entry.serial), 0, sizeof(entry) - sizeof(entry.serial));
  entry.hash = info.hash;
  entry.rank = info.rank;
  entry.ranks = info.ranks;
  entry.nodes = info.nodes;
  entry.created_ns = now_ns();
  if (info.name != nullptr) {
    std::memcpy(entry.name, info.name, strnlen(info.name, sizeof(entry.name) - 1));
  }
  const uint64_t serial = add<uint64_t>(box.header->communicators_made, 1) + 1;
  store<uint64_t>(entry.serial, serial, std::memory_order_release);
  return tag | index << kIndexShift | (serial & UINT32_MAX);
}

uint32_t serial_of(uint64_t context) { return static_cast<uint32_t>(context); }

bool is_context_of(const Box& box, uint64_t context) { return context >> kTagShift == box.tag; }

Communicator* communicator_of(Box& box, uint64_t context) {
  const uint64_t index = context >> kIndexShift & 0xffff;
  if (!is_context_of(box, context) || serial_of(context) == 0 || index >= box.header->communicator_capacity) {
    return nullptr;
  }
  Communicator& entry = box.communicators[index];
  return static_cast<uint32_t>(load(entry.serial, std::memory_order_acquire)) == serial_of(context) ? &entry : nullptr;
}

void end_communicator(Communicator& communicator) { store<uint64_t>(communicator.destroyed_ns, now_ns()); }

void learn_communicator(Communicator& communicator, uint64_t hash, int32_t rank) {
  if (load(communicator.hash) == 0) {
    store(communicator.rank, rank);
    store(communicator.hash, hash, std::memory_order_release);
  }
}

uint64_t count_transfer(uint64_t context, bool send, int32_t peer) {
  const uint64_t key = (context << 32 | static_cast<uint64_t>(static_cast<uint32_t>(peer)) << 1 | (send ? 1 : 0)) + 1;
  uint64_t slot = key * 0x9e3779b97f4a7c15 >> 40;
  for (uint64_t probe = 0; probe < kTransferProbes; ++probe, ++slot) {
    TransferCount& entry = transfer_counts[slot % kTransferCounts];
    uint64_t found = load(entry.key);
    if (found == 0 && replace(entry.key, found, key)) {
      found = key;
    }
    if (found == key) {
      return add<uint64_t>(entry.count, 1);
    }
  }
  return ST_BOX_NUMBER_UNKNOWN;
}

void forget_transfers() {
  for (TransferCount& entry : transfer_counts) {
    store<uint64_t>(entry.count, 0);
    store<uint64_t>(entry.key, 0);
  }
}

}  // namespace stalltrace::plugin
