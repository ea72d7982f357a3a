// SPDX-License-Identifier: Apache-2.0
// Provides the profiler plugin's file for a job: a copy where the job's NCCL can load it, or one that is already there.
#pragma once

#include <string>

#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::launch {

/// True if the value of NCCL_PROFILER_PLUGIN (a path, a library's name, or NAME for libnccl-profiler-NAME.so) is this
/// project's plugin, in any version: by its file if that can be found, else by its name.
bool is_our_plugin(const std::string& chosen);

/// A copy of the plugin in a folder that only this user can change, identical to the one in this program. A copy
/// outside of the run's folder is removed with this object or, if this process is killed, when the next one is placed.
class PluginFile {
 public:
  /// Puts the copy into `folder`, or in a folder for temporary files if NCCL could not load it from there (mounted
  /// noexec, a path that is too long). Root uses the temporary folder at once: its job may run as another user, who can
  /// load it only from there. An error says why NCCL can load it from neither.
  static Result<PluginFile> install(const OwnFolder& folder);

  PluginFile(PluginFile&& other) noexcept = default;
  PluginFile& operator=(PluginFile&&) = delete;
  ~PluginFile();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  PluginFile(std::string path, OwnFolder temporary) : path_(std::move(path)), temporary_(std::move(temporary)) {}

  std::string path_;
  OwnFolder temporary_;  // unused if the copy is in the run's folder
};

}  // namespace stalltrace::launch
