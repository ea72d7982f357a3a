// SPDX-License-Identifier: Apache-2.0
#include "plugin/recorder/call_numbers.h"

#include "plugin/box/field.h"
#include "plugin/wire/blackbox.h"

namespace stalltrace::plugin {
namespace {

struct CallNumber {
  uint64_t call;  // 0 unused, or being written
  uint64_t number;
};

constexpr int kSetBits = 11;
constexpr uint64_t kWays = 8;

struct Set {
  uint64_t noted;  // number of calls noted so far
  CallNumber ways[kWays];
};

constinit Set sets[1 << kSetBits] = {};

Set& set_of(uint64_t id) { return sets[id * 0x9e3779b97f4a7c15 >> (64 - kSetBits)]; }

}  // namespace

void note_call(uint64_t id, uint64_t number) {
  Set& set = set_of(id);
  CallNumber& entry = set.ways[add<uint64_t>(set.noted, 1) % kWays];
  store<uint64_t>(entry.call, 0);
  std::atomic_thread_fence(std::memory_order_release);  // visible before the data written now
  store(entry.number, number);
  store(entry.call, id, std::memory_order_release);
}

uint64_t number_of_call(uint64_t id) {
  for (CallNumber& entry : set_of(id).ways) {
    if (id != 0 && load(entry.call, std::memory_order_acquire) == id) {
      const uint64_t number = load(entry.number);
      std::atomic_thread_fence(std::memory_order_acquire);
      return load(entry.call) == id ? number : ST_BOX_NUMBER_UNKNOWN;
    }
  }
  return ST_BOX_NUMBER_UNKNOWN;
}

}  // namespace stalltrace::plugin
