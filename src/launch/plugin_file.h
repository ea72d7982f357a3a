// SPDX-License-Identifier: Apache-2.0
// The profiler plugin's file for a job: put where the job's NCCL can load it, or found to be there already.
#pragma once

#include <string>

#include "base/result.h"

namespace stalltrace::launch {

/// Whether what NCCL_PROFILER_PLUGIN says (a path, a library's name, or NAME for libnccl-profiler-NAME.so) is this
/// project's plugin, of whatever version: by the file where it can be found, else by its name.
bool is_our_plugin(const std::string& chosen);

/// A copy of the plugin. One that does not lie in the run's folder goes with this object.
class PluginFile {
 public:
  /// Into `folder`, or where NCCL could not load it from there (mounted noexec, a path it would cut) into a folder for
  /// temporary files. An error says why NCCL can load it from neither.
  static Result<PluginFile> place(const std::string& folder);

  PluginFile(PluginFile&& other) noexcept : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)) {
    other.temporary_.clear();
  }
  PluginFile& operator=(PluginFile&&) = delete;
  ~PluginFile();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  PluginFile(std::string path, std::string temporary) : path_(std::move(path)), temporary_(std::move(temporary)) {}

  std::string path_;
  std::string temporary_;  // a folder of its own
};

}  // namespace stalltrace::launch
