// SPDX-License-Identifier: Apache-2.0
// The profiler plugin's file for a job: put where the job's NCCL can load it, or found to be there already.
#pragma once

#include <string>

#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::launch {

/// Whether what NCCL_PROFILER_PLUGIN says (a path, a library's name, or NAME for libnccl-profiler-NAME.so) is this
/// project's plugin, of whatever version: by the file where it can be found, else by its name.
bool is_our_plugin(const std::string& chosen);

/// A copy of the plugin in a folder that this user alone can change, byte for byte as it is in this program. One that
/// does not lie in the run's folder goes with this object, or, if this process is killed, with the next one placed.
class PluginFile {
 public:
  /// Into `folder`, or where NCCL could not load it from there (mounted noexec, a path it would cut) into a folder for
  /// temporary files. Root places it there at once: its job may run as somebody else, who can load it from there alone.
  /// An error says why NCCL can load it from neither.
  static Result<PluginFile> place(const OwnFolder& folder);

  PluginFile(PluginFile&& other) noexcept = default;
  PluginFile& operator=(PluginFile&&) = delete;
  ~PluginFile();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  PluginFile(std::string path, OwnFolder temporary) : path_(std::move(path)), temporary_(std::move(temporary)) {}

  std::string path_;
  OwnFolder temporary_;  // none where it lies in the run's folder
};

}  // namespace stalltrace::launch
