// SPDX-License-Identifier: Apache-2.0
// What processes map. To list that takes the kernel 1 ms for a rank of PyTorch, and 30 ms for a process with as many
// mappings as it may have; a process can ask for it by mapping and unmapping a file. So each process gets some time at
// once, and then a share. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/process/procfs.h"
#include "base/result.h"

namespace stalltrace::capture {

class MappingTables {
 public:
  using Table = std::shared_ptr<const std::vector<MappedFile>>;

  /// `procfs` must outlive the object.
  explicit MappingTables(const Procfs& procfs) : procfs_(procfs) {}

  static constexpr int64_t kAtOnceNs = 100 * kNsPerMs;
  static constexpr int64_t kShare = 20;  // one part in this many

  /// From when on a process's table may be read again (CLOCK_MONOTONIC); 0: now.
  [[nodiscard]] int64_t again_ns(pid_t pid) const;
  /// Reads a process's executable mappings, each file once.
  Result<Table> read(pid_t pid);
  /// As they were when they were last read; null where that is long ago.
  [[nodiscard]] Table last(pid_t pid) const;

 private:
  struct Read {
    Table table;
    int64_t read_ns = 0;  // CLOCK_MONOTONIC
    int64_t left_ns = kAtOnceNs;

    [[nodiscard]] int64_t left_at(int64_t now_ns) const;
  };
  void forget_old(int64_t now_ns);

  const Procfs& procfs_;
  std::map<pid_t, Read> reads_;
  int64_t forgot_ns_ = 0;
};

}  // namespace stalltrace::capture
