// SPDX-License-Identifier: Apache-2.0
// The memory of another process, or an image of one. The process runs while it is read and may be hostile: a reading
// may mix two moments, and any number may be false.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "base/handle.h"
#include "base/process/procfs.h"
#include "base/result.h"

namespace stalltrace::stacks {

class Memory {
 public:
  virtual ~Memory() = default;
  /// Reads all of the bytes or returns false; `into` is undefined then.
  virtual bool read(uint64_t address, std::span<std::byte> into) = 0;
};

/// Memory of a live process, through /proc/PID/mem, opened for reading: the process is neither stopped nor changed, and
/// a later process with the same number is never read.
class ProcessMemory final : public Memory {
 public:
  /// Errors: kNotFound, kNoPrivilege.
  static Result<ProcessMemory> open(const Procfs& procfs, pid_t pid);
  bool read(uint64_t address, std::span<std::byte> into) override;

 private:
  explicit ProcessMemory(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// Reads and caches whole pages, so that adjacent data are from one moment and few system calls are made; stops all
/// reading once its limits of bytes and time are reached. Borrows the underlying memory.
class BoundedMemory {
 public:
  struct Bounds {
    uint64_t most_bytes = 256U << 20;
    int64_t most_ns = 2'000'000'000;
    int64_t pause_ns = 200'000;  // between two readings that differ
  };
  BoundedMemory(Memory& memory, Bounds bounds);

  bool read(uint64_t address, std::span<std::byte> into);
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  bool read(uint64_t address, T& into) { return read(address, std::as_writable_bytes(std::span(&into, 1))); }
  /// Drops the cache: later reads are fresh.
  void forget();
  /// Waits a moment after a reading that failed or differed, so that the process moves on.
  void pause() const;
  /// A limit was reached: nothing more is read.
  [[nodiscard]] bool exhausted() const { return exhausted_; }

 private:
  using Page = std::vector<std::byte>;
  const Page* page(uint64_t number);

  Memory& memory_;
  Bounds bounds_;
  int64_t begun_ns_;
  uint64_t bytes_ = 0;
  bool exhausted_ = false;
  std::unordered_map<uint64_t, Page> pages_;
};

}  // namespace stalltrace::stacks
