// SPDX-License-Identifier: Apache-2.0
// Finds profiler files (docs/profiler_file.md): those of traced processes, in the folder each of them would use, seen
// through its own mount namespace, and those that processes which are gone have left there. Nothing there is trusted:
// folders on file systems of this host only, no link is followed, pipes don't hold us up, so many names a look and no
// more, and no user's files keep another's from being found. One thread.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/handle.h"
#include "base/process/procfs.h"
#include "blackbox/format/reader.h"

namespace stalltrace::blackbox {

struct FoundBox {
  blackbox::BoxReader reader;
  int32_t pid = 0;     // on this host; 0 where its process was gone, and had no number here that we know
  bool alive = false;  // its process is a traced one
};

class ProfilerFileFinder {
 public:
  struct Scope {
    bool only_living = false;  // boxes of processes that are gone are none of ours
    uint64_t only_netns = 0;   // inode number; 0: all
  };
  explicit ProfilerFileFinder(const Procfs& procfs, Scope scope);

  /// A traced process, whose box is or will be in its folder.
  void add_process(pid_t pid);
  /// It has ended: its box is found now or not at all. A folder that only it has used is let go, as the file system of
  /// a container would live on with it.
  void end_process(pid_t pid, const std::function<void(FoundBox)>& found);
  /// Boxes not found before. `now_ns` is CLOCK_MONOTONIC.
  void look(int64_t now_ns, const std::function<void(FoundBox)>& found);

 private:
  using FileId = std::pair<uint64_t, uint64_t>;  // device, inode
  struct Target {                                // what a box must say to be this process's
    pid_t pid = 0;
    uint32_t inner_pid = 0;
    uint64_t start_ticks = 0;
    uid_t owner = 0;
    bool taken = false;
    bool ended = false;
    std::optional<FileId> folder;
  };
  struct Folder {
    UniqueFd fd;
    FileId id;
    bool keep = false;                           // this host's own
    std::unique_ptr<DIR, Free<closedir>> names;  // where the last look ended
    std::set<FileId> known;                      // files that need no other look
    std::set<FileId> seen;                       // in this pass over the names
  };
  enum class Verdict { kTaken, kLater, kNever };
  std::optional<FileId> add_folder(const std::string& root, const std::string& path, bool keep);
  void look_for(Target& target, const std::function<void(FoundBox)>& found);
  void look_for_gone(Folder& folder, int64_t now_ns, const std::function<void(FoundBox)>& found);
  Verdict examine(int folder, const char* name, int64_t now_ns, const std::function<void(FoundBox)>& found);
  [[nodiscard]] bool belongs_to_target(const st_box_header& header) const;
  [[nodiscard]] bool is_recent(const blackbox::BoxReader& reader, int64_t now_ns) const;

  const Procfs& procfs_;
  Scope scope_;
  std::string boot_id_;
  std::vector<Target> targets_;
  std::vector<Folder> folders_;
};

}  // namespace stalltrace::blackbox
