// SPDX-License-Identifier: Apache-2.0
// Code addresses of a process → names, by the symbol tables of the files it maps, within a bound on the time that
// all of them take; what is not found in time, or lies on a file system that may not answer, keeps its offset for a
// name. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/process/procfs.h"
#include "base/untrusted/mounts.h"

namespace stalltrace::capture {

class CodeNames {
 public:
  /// `procfs` outlives it.
  explicit CodeNames(const Procfs& procfs) : procfs_(procfs), mounts_(procfs) {}

  /// One line a frame: "train_step+0x4f (train)", or "+0x1f40 (libstripped.so)" with the offset in the file.
  /// `addresses` are those of a stack, innermost first: all but the first are return addresses. It ends before the
  /// first that is in no file: code without frame pointers leads there. Empty when the process is gone.
  std::string describe(pid_t pid, std::span<const uint64_t> addresses);
  void forget(pid_t pid) { mappings_.erase(pid); }

 private:
  /// A process's code, read once for the many stacks of its start: a PyTorch rank has 1,700 mappings, which take the
  /// kernel more than a millisecond to write down.
  struct Mappings {
    std::vector<MappedFile> files;
    int64_t read_ns = 0;  // CLOCK_MONOTONIC
  };
  struct Frame {
    const MappedFile* file;
    uint64_t offset;
  };
  /// Null when the process is gone.
  const Mappings* mappings_of(pid_t pid, int64_t not_before_ns);
  static std::vector<Frame> frames_of(const Mappings& mappings, std::span<const uint64_t> addresses);

  using Key = std::tuple<uint32_t, uint32_t, uint64_t, uint64_t>;  // device (two), inode, offset in the file
  void look_up(pid_t pid, const MappedFile& file, std::span<const uint64_t> offsets);
  [[nodiscard]] bool in_time();

  const Procfs& procfs_;
  Mounts mounts_;
  std::map<pid_t, Mappings> mappings_;
  std::map<Key, std::string> known_;
  int64_t second_ns_ = 0;  // CLOCK_MONOTONIC: of the second that spent_ns_ is about
  int64_t spent_ns_ = 0;
};

}  // namespace stalltrace::capture
