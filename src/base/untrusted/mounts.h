// SPDX-License-Identifier: Apache-2.0
// Which file systems answer without anybody else's help. The answer comes from the kernel's tables of mounts: a look at
// a file of a server that is gone, or of a user's own FUSE program, may never return. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/process/procfs.h"

namespace stalltrace {

struct MountedOn {
  std::string type;      // as mountinfo has it; empty: mounted where nobody looks, or no more
  bool local = false;    // to open and read a file there waits for this host alone
  bool by_host = false;  // by somebody with this host's privilege: no user made it in a namespace of his own
};

class Mounts {
 public:
  /// `procfs` outlives it.
  explicit Mounts(const Procfs& procfs) : procfs_(procfs) {}

  /// Of a device as a process's mappings have it. An overlay counts as local only where the host mounted it: in a
  /// user's own namespace its layers may be anything.
  const MountedOn& of_device(pid_t pid, uint32_t major, uint32_t minor);
  /// Whether a path of this program's own leads through local file systems alone, followed link by link.
  [[nodiscard]] bool is_local_path(const std::string& path);

 private:
  using Device = std::pair<uint32_t, uint32_t>;
  void read_own(int64_t now_ns);
  void refresh();
  [[nodiscard]] bool has_our_user_namespace(pid_t pid) const;

  const Procfs& procfs_;
  std::map<Device, MountedOn> by_device_;
  std::map<std::string, std::string> points_;  // of this program's namespace: mount point → type, the topmost
  int64_t read_ns_ = 0;                        // CLOCK_MONOTONIC
};

/// One line of /proc/PID/mountinfo; false for what is none.
struct MountLine {
  uint32_t major = 0;
  uint32_t minor = 0;
  std::string point;  // with its escapes undone
  std::string type;
};
bool parse_mount_line(std::string_view line, MountLine& into);

}  // namespace stalltrace
