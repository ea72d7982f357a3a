// SPDX-License-Identifier: Apache-2.0
// Where the profiler files of a run are. While the job runs they lie in memory, as writing them must never wait for a
// disk or a file server; when it ends, or the launcher is told to end, they are copied into the run's folder. One
// thread, beside a copier of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/handle.h"
#include "base/result.h"
#include "blackbox/format/reader.h"

namespace stalltrace::launch {

class ProfilerFiles {
 public:
  using Note = std::function<void(const std::string&)>;

  /// `kept` is the run's own folder for them. `chosen`: the environment says where profiler files go, and there they
  /// stay; empty: a new folder in `memory`, of this user alone, if that is a file system in memory with room, else
  /// `kept`.
  ProfilerFiles(std::string kept, const std::string& chosen, const Note& note, std::string memory = "/dev/shm");
  ~ProfilerFiles();
  ProfilerFiles(const ProfilerFiles&) = delete;
  ProfilerFiles& operator=(const ProfilerFiles&) = delete;

  /// Where the plugin is to write.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] bool in_memory() const { return temporary_; }
  /// Whether a box there is of this job: in a folder that the environment chose, one of a process that began since we
  /// did.
  [[nodiscard]] bool is_of_this_run(const st_box_header& header) const;
  /// Opens the boxes that are new. What is open can be copied even where its name is taken away, as log-in managers do
  /// with a user's files in memory once the user has logged out.
  void look();
  /// The boxes so far, where they are now.
  std::vector<std::string> boxes();
  /// Copies what there is beside the work: whoever told us to end may kill us before the job is done.
  void save_soon();
  /// The job has ended: moves the boxes to the run's folder. Those of processes that go on are copied and stay in
  /// memory too, and so does what can't be copied. Returns the boxes to read.
  std::vector<std::string> settle(const Note& note);
  /// The job was never started.
  void discard();

 private:
  struct Box {
    UniqueFd file;
    std::string path;
  };
  [[nodiscard]] bool is_wanted(const std::string& path) const;

  std::string kept_;
  std::string folder_;
  bool temporary_ = false;  // ours, in memory
  bool chosen_ = false;
  uint64_t began_ticks_ = 0;
  std::string boot_id_;
  UniqueFd lock_;                     // of the folder in memory: its launcher lives
  std::map<std::string, Box> boxes_;  // by name
  std::jthread copier_;
};

/// Copies a file's bytes, and no others than zeros are left out. `to` appears whole or not at all, mode 0600.
Status copy_sparse(int from, const std::string& to, const std::stop_token& stop);

}  // namespace stalltrace::launch
