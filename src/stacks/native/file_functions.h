// SPDX-License-Identifier: Apache-2.0
// The functions at code offsets of the files that processes map: wanted one by one, looked up together, each file and
// offset once.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "base/process/procfs.h"
#include "base/untrusted/function_name_reader.h"
#include "base/untrusted/mounts.h"

namespace stalltrace::stacks {

class FileFunctions {
 public:
  /// `procfs` must outlive the object.
  FileFunctions(const Procfs& procfs, FunctionNameReader::ReadBy read_by)
      : procfs_(procfs), mounts_(procfs), reader_("/usr/lib/debug", read_by) {}

  void want(pid_t pid, const MappedFile& file, uint64_t offset);
  /// Names all that are wanted and not named yet, for `most_ns` in all: later files have no names then. A file has at
  /// most half of the time that is left.
  void look_up(int64_t most_ns);
  /// The function; empty: unknown.
  [[nodiscard]] std::string at(const MappedFile& file, uint64_t offset) const;

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint64_t>;  // device (two), inode
  struct File {
    pid_t pid = 0;
    MappedFile file;
    std::map<uint64_t, std::string> functions;  // by offset in the file; empty: unknown
    bool fresh = false;                         // has offsets that were not looked up
  };
  static Key key_of(const MappedFile& file) { return {file.device_major, file.device_minor, file.inode}; }

  const Procfs& procfs_;
  Mounts mounts_;
  FunctionNameReader reader_;
  std::map<Key, File> files_;
};

}  // namespace stalltrace::stacks
