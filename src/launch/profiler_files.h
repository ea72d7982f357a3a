// SPDX-License-Identifier: Apache-2.0
// The profiler files of a run. While the job runs they are in memory, because writing them must never wait for a disk
// or a file server; when it ends, or the launcher gets a signal to end, they are copied into the run's folder.
// Single-threaded, with its own copying thread.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/files/own_folder.h"
#include "base/handle.h"
#include "base/result.h"
#include "blackbox/format/reader.h"

namespace stalltrace::launch {

class ProfilerFiles {
 public:
  using Note = std::function<void(const std::string&)>;

  /// `kept` is the folder for them in the run's folder. If `chosen`, the folder in the environment, is not empty, they
  /// stay there. Otherwise they go to a new folder in `memory` that only this user can access, if that is a file system
  /// in memory with room, else to `kept`. The job's processes are those that `launcher` starts.
  ProfilerFiles(std::string kept, const std::string& chosen, const Note& note,
                std::string memory = blackbox::kProfilerFolder, pid_t launcher = ::getpid());
  ~ProfilerFiles();
  ProfilerFiles(const ProfilerFiles&) = delete;
  ProfilerFiles& operator=(const ProfilerFiles&) = delete;

  /// The folder that the plugin must write to.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] bool in_memory() const { return temporary_; }
  /// True if a file belongs to this job: in a folder from the environment, only files of processes that started after
  /// the launcher and belong to this user. For root, another user's file counts as well while the process that holds
  /// its lock descends from the launcher: any user may put a file there.
  [[nodiscard]] bool is_of_this_run(const blackbox::ProfilerFileReader& file) const;
  /// Opens new files. An open file can be copied even after its name was removed; log-in managers remove a user's files
  /// in memory when the user has logged out.
  void update();
  /// Updates, and returns the current paths of the files.
  std::vector<std::string> paths();
  /// Starts copying in the background: SIGKILL may follow a signal to end before the job has ended.
  void save_soon();
  /// Call when the job has ended: moves the files to the run's folder. Files of processes that still live are copied
  /// and stay in memory as well; files that can't be copied stay there. Returns the paths to read from.
  std::vector<std::string> collect(const Note& note);
  /// Call if the job was never started.
  void discard();

 private:
  struct OpenFile {
    UniqueFd file;
    std::string path;
  };
  [[nodiscard]] bool is_wanted(const std::string& path) const;

  std::string kept_;
  pid_t launcher_;
  std::string folder_;
  bool temporary_ = false;  // created by us, in memory
  bool chosen_ = false;
  uint64_t began_ticks_ = 0;
  std::string boot_id_;
  OwnFolder memory_;                       // its lock shows that its launcher lives
  std::map<std::string, OpenFile> files_;  // by name
  std::jthread copier_;
};

/// Copies a file; blocks of zeros become holes. `to` appears complete and synced or not at all, mode 0600.
Status copy_sparse(int from, const std::string& to, const std::stop_token& stop);

}  // namespace stalltrace::launch
