// SPDX-License-Identifier: Apache-2.0
// Code addresses of a process → names, from the symbol tables of the files it maps. All searches together have a time
// limit. An address not resolved in time, or on a file system that may not answer, is named by its offset. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/process/procfs.h"
#include "base/untrusted/function_name_reader.h"
#include "base/untrusted/mounts.h"

namespace stalltrace::capture {

class CodeNames {
 public:
  /// `procfs` must outlive the object.
  explicit CodeNames(const Procfs& procfs) : procfs_(procfs), mounts_(procfs) {}

  /// One line per frame: "train_step+0x4f (train)", or "+0x1f40 (libstripped.so)" with the offset in the file.
  /// `addresses` is a stack, innermost first; all but the first are return addresses. The result ends before the first
  /// address that is in no file, since walks through code without frame pointers end there. Empty when the process is
  /// gone.
  std::string describe(pid_t pid, std::span<const uint64_t> addresses, uint32_t user = 0);
  void forget(pid_t pid) { mappings_.erase(pid); }

 private:
  /// A process's code mappings, read once for the many stacks at its start: a PyTorch rank has 1,700 mappings, and the
  /// kernel takes more than a millisecond to list them.
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
  void look_up(pid_t pid, const MappedFile& file, std::span<const uint64_t> offsets, uint32_t user);
  [[nodiscard]] bool in_time(uint32_t user);

  const Procfs& procfs_;
  Mounts mounts_;
  FunctionNameReader names_;
  std::map<pid_t, Mappings> mappings_;
  std::map<Key, std::string> known_;
  int64_t second_ns_ = 0;  // CLOCK_MONOTONIC: start of the second that spent_ns_ counts
  int64_t spent_ns_ = 0;
  std::map<uint32_t, int64_t> spent_of_user_ns_;  // in the same second
};

}  // namespace stalltrace::capture
