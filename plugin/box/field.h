// SPDX-License-Identifier: Apache-2.0
// Fields of the mapped file that several threads use: single words, accessed atomically.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace stalltrace::plugin {

template <typename T>
T load(const T& field, std::memory_order order = std::memory_order_relaxed) {
  return std::atomic_ref<T>(const_cast<T&>(field)).load(order);  // std::atomic_ref<const T> is C++26
}

template <typename T>
void store(T& field, T value, std::memory_order order = std::memory_order_relaxed) {
  std::atomic_ref<T>(field).store(value, order);
}

template <typename T>
T add(T& field, T amount) {
  return std::atomic_ref<T>(field).fetch_add(amount, std::memory_order_relaxed);
}

/// Sets the field to `value` if it still is `expected`, which is updated otherwise.
template <typename T>
bool replace(T& field, T& expected, T value) {
  return std::atomic_ref<T>(field).compare_exchange_strong(expected, value, std::memory_order_acq_rel,
                                                           std::memory_order_acquire);
}

/// Raises the field to `value`, if that is later.
inline void raise_to(uint64_t& field, uint64_t value) {
  uint64_t current = load(field);
  while (current < value && !replace(field, current, value)) {
  }
}

/// Lowers the field to `value`, if that is earlier; 0: unset.
inline void lower_to(uint64_t& field, uint64_t value) {
  uint64_t current = load(field);
  while ((current == 0 || current > value) && !replace(field, current, value)) {
  }
}

/// Copies whole words that another thread may be reading.
inline void copy_words(void* to, const void* from, size_t bytes) {
  auto* target = static_cast<uint64_t*>(to);
  const auto* source = static_cast<const uint64_t*>(from);
  for (size_t word = 0; word < bytes / sizeof(uint64_t); ++word) {
    store(target[word], load(source[word]));
  }
}

/// Needs no system call (vDSO) where the kernel's clock source allows it.
inline uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

}  // namespace stalltrace::plugin
