// SPDX-License-Identifier: Apache-2.0
// Which file systems answer without the help of another host or process, from the kernel's mount tables: accessing a
// file of a server that is gone, or of a user's FUSE program, may never return. One thread.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/process/procfs.h"

namespace stalltrace {

struct MountedOn {
  std::string type;      // as in mountinfo; empty: not in any table read, or unmounted
  bool local = false;    // opening and reading a file there depends on this host only
  bool by_host = false;  // mounted with this host's privilege, not by a user in a namespace of his own
};

class Mounts {
 public:
  /// `procfs` must outlive the object.
  explicit Mounts(const Procfs& procfs) : procfs_(procfs) {}

  /// The mount of a device in a process's mappings. An overlay counts as local only where the host mounted it: in a
  /// user's own namespace its layers may be anything.
  const MountedOn& of_device(pid_t pid, uint32_t major, uint32_t minor);
  /// A mount by its number, as statx gives it: in this program's mount namespace or the process's.
  const MountedOn& of_mount(pid_t pid, uint64_t id);
  /// Whether a path in this program's namespace, followed link by link, leads only through local file systems.
  [[nodiscard]] bool is_local_path(const std::string& path);

 private:
  using Device = std::pair<uint32_t, uint32_t>;
  /// The mounts of one namespace, read once for all its processes.
  struct Table {
    std::map<Device, MountedOn> by_device;
    std::map<uint64_t, MountedOn> by_id;
    int64_t read_ns = 0;  // CLOCK_MONOTONIC
  };
  /// `mounts` and `by_host` say whose table it is; `pid` only where the kernel does not say which namespace it is.
  struct Namespace {
    uint64_t mounts = 0;
    pid_t pid = 0;
    bool by_host = false;

    auto operator<=>(const Namespace&) const = default;
  };
  const Table& own_table(int64_t most_age_ns);
  const Table& table_of(pid_t pid, int64_t most_age_ns);
  template <typename Look>
  const MountedOn& find(pid_t pid, const Look& look);
  [[nodiscard]] bool has_our_user_namespace(pid_t pid) const;

  const Procfs& procfs_;
  Table own_;
  std::map<std::string, std::string> points_;  // in this program's namespace: mount point → type of the topmost mount
  std::map<Namespace, Table> others_;
};

/// Parses one line of /proc/PID/mountinfo; false if malformed.
struct MountLine {
  uint64_t id = 0;
  uint32_t major = 0;
  uint32_t minor = 0;
  std::string point;  // unescaped
  std::string type;
};
bool parse_mount_line(std::string_view line, MountLine& into);

}  // namespace stalltrace
