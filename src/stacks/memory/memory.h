// SPDX-License-Identifier: Apache-2.0
// The memory of another process, or an image of one. The process goes on while it is read and may be hostile: what is
// read may be of two moments, and any number may be a lie.
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
  /// All of the bytes, or false; `into` is undefined then.
  virtual bool read(uint64_t address, std::span<std::byte> into) = 0;
};

/// Of a live process, through /proc/PID/mem, opened for reading: it is neither stopped nor changed, and a process that
/// gets the same number later is not read by mistake.
class ProcessMemory final : public Memory {
 public:
  /// Errors: kNotFound, kNoPrivilege.
  static Result<ProcessMemory> open(const Procfs& procfs, pid_t pid);
  bool read(uint64_t address, std::span<std::byte> into) override;

 private:
  explicit ProcessMemory(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// Reads whole pages and keeps them, so that what lies together is of one moment, and few system calls are made; ends
/// all reading once its bounds on bytes and time are reached. Borrows the memory below it.
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
  /// What is read from here on is read anew.
  void forget();
  /// Lets the process go on for a moment, after a reading that failed or differed.
  void pause() const;
  /// A bound was reached: nothing is read any more.
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
