// SPDX-License-Identifier: Apache-2.0
// The profiler files of a run. While the job runs they lie in memory, because writing them must never wait for a disk
// or a file server; when it ends, or the launcher gets a signal to end, they are copied into the run's folder. One
// thread, and a copying thread of its own.
#pragma once

#include <sys/types.h>

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

  /// `kept` is the run's own folder for them. `chosen` is the folder that the environment names: there they stay. If it
  /// is empty, they go to a new folder in `memory`, of this user alone, if that is a file system in memory with room,
  /// else to `kept`.
  ProfilerFiles(std::string kept, const std::string& chosen, const Note& note, std::string memory = "/dev/shm");
  ~ProfilerFiles();
  ProfilerFiles(const ProfilerFiles&) = delete;
  ProfilerFiles& operator=(const ProfilerFiles&) = delete;

  /// Where the plugin has to write.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] bool in_memory() const { return temporary_; }
  /// Whether a file there is of this job: in a folder that the environment names, only those of processes that began
  /// after this one, and of this user. For root another user's counts too while the process that holds its lock
  /// descends from this one: anybody may put a file there.
  [[nodiscard]] bool is_of_this_run(const blackbox::ProfilerFileReader& file) const;
  /// Opens new files. An open file can be copied even after its name was removed, which log-in managers do with a
  /// user's files in memory once the user has logged out.
  void update();
  /// Updates, and returns where the files are now.
  std::vector<std::string> paths();
  /// Starts copying in the background: a signal to end may be followed by SIGKILL before the job has ended.
  void save_soon();
  /// The job has ended: moves the files to the run's folder. Those of processes that still live are copied and stay in
  /// memory too; those that can't be copied stay there. Returns the paths to read from.
  std::vector<std::string> settle(const Note& note);
  /// The job was never started.
  void discard();

 private:
  struct OpenFile {
    UniqueFd file;
    std::string path;
  };
  [[nodiscard]] bool is_wanted(const std::string& path) const;

  std::string kept_;
  std::string folder_;
  bool temporary_ = false;  // made by us, in memory
  bool chosen_ = false;
  uint64_t began_ticks_ = 0;
  std::string boot_id_;
  OwnFolder memory_;                       // its lock shows that its launcher lives
  std::map<std::string, OpenFile> files_;  // by name
  std::jthread copier_;
};

/// Copies a file; blocks of zeros become holes. `to` appears whole and stored on the disk or not at all, mode 0600.
Status copy_sparse(int from, const std::string& to, const std::stop_token& stop);

}  // namespace stalltrace::launch
