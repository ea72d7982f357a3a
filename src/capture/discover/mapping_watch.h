// SPDX-License-Identifier: Apache-2.0
// Reports immediately that a process mapped an executable file: the kernel's MMAP2 records (as used by `perf record`),
// one ring per CPU. A library is known before its first call, without polling.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/handle.h"
#include "base/process/procfs.h"
#include "base/result.h"

namespace stalltrace::capture {

class MappingWatch {
 public:
  using Visitor = std::function<void(pid_t pid, const MappedFile& file)>;

  /// Watches all processes of the host. Errors: perf_event_open refused (needs CAP_PERFMON).
  static Result<std::unique_ptr<MappingWatch>> open();

  /// Visits the mappings since the last call. Returns how many records the kernel dropped.
  uint64_t drain(const Visitor& visit);

  /// One pollable descriptor per CPU: readable when drain() has something to visit.
  [[nodiscard]] std::vector<int> descriptors() const;

 private:
  struct Ring;
  explicit MappingWatch(std::vector<Ring> rings);

 public:
  ~MappingWatch();

 private:
  std::vector<Ring> rings_;
};

}  // namespace stalltrace::capture
