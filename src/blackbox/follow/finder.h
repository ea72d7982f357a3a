// SPDX-License-Identifier: Apache-2.0
// Finds profiler files (docs/profiler_file.md): those of traced processes, in the folder that each would use, seen
// through its own mount namespace, and those that dead processes left there. The folders are untrusted: only those on
// file systems of this host are used, links are not followed, pipes do not block, each search reads a bounded number of
// names, and one user's files cannot keep another's from being found. One thread.
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
#include "blackbox/losses.h"

namespace stalltrace::blackbox {

struct FoundFile {
  ProfilerFileReader reader;
  int32_t pid = 0;     // on this host; 0 for a process that has ended, whose number here is unknown
  bool alive = false;  // of a traced process
  uint32_t user = 0;   // in whose share it is; of a process that has ended: the file's owner
};
/// False where there is no room for the file now: that of a traced process is found again.
using TakeFile = std::function<bool(FoundFile)>;

class ProfilerFileFinder {
 public:
  struct Scope {
    bool only_living = false;  // ignore files of processes that have ended
    uint64_t only_netns = 0;   // for processes that have ended: inode number; 0: all
  };
  explicit ProfilerFileFinder(const Procfs& procfs, Scope scope);

  /// Adds a traced process, whose file is or will be in its folder.
  void add_process(pid_t pid, uint32_t user);
  /// The process has ended: its file is found now or never. A folder that only it used is closed, since an open one
  /// would keep the file system of a container mounted.
  void end_process(pid_t pid, const TakeFile& found);
  /// Calls `found` for files not found before. `now_ns` is CLOCK_MONOTONIC.
  void search(int64_t now_ns, const TakeFile& found);
  /// Folders beyond 64 and processes beyond 1,024.
  [[nodiscard]] const LossCounts& losses() const { return losses_; }

 private:
  using FileId = std::pair<uint64_t, uint64_t>;  // device, inode
  struct Target {                                // identity of a process that its file must match
    pid_t pid = 0;
    uint32_t inner_pid = 0;
    uint64_t start_ticks = 0;
    uint64_t pid_namespace = 0;  // 0 unknown
    uid_t owner = 0;
    uint32_t user = 0;  // in whose share it is
    bool ended = false;
    std::optional<FileId> folder;
    bool refused = false;        // there was no room for its file; counted once
    std::optional<FileId> file;  // the file that was found
    int64_t all_names_tried_ns = 0;
    [[nodiscard]] bool has(const st_box_header& header) const;
  };
  struct Folder {
    UniqueFd fd;
    FileId id;
    uint32_t user = 0;                           // whose process made us look there first
    bool keep = false;                           // this host's own folder
    std::unique_ptr<DIR, Free<closedir>> names;  // position of the last search
    std::set<FileId> known;                      // files that need not be examined again
    std::set<FileId> seen;                       // in the current pass over the names
  };
  enum class FileDecision { kTaken, kLater, kForever };
  std::optional<FileId> add_folder(const std::string& root, const std::string& path, uint32_t user, bool keep);
  void search_target(Target& target, int64_t now_ns, const TakeFile& found);
  std::optional<FoundFile> open_target(Target& target, Folder& folder, UniqueFd file, const std::string& name);
  void search_gone(Folder& folder, int64_t now_ns, const TakeFile& found);
  FileDecision examine(int folder, const char* name, int64_t now_ns, const TakeFile& found);
  [[nodiscard]] bool is_recent(const ProfilerFileReader& reader, int64_t now_ns) const;

  const Procfs& procfs_;
  Scope scope_;
  std::string boot_id_;
  std::vector<Target> targets_;
  std::vector<Folder> folders_;
  LossCounts losses_;
};

}  // namespace stalltrace::blackbox
