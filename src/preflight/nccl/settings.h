// SPDX-License-Identifier: Apache-2.0
// NCCL's settings as a process gets them: its environment first, then the configuration files (NCCL 2.30,
// src/misc/param.cc: NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf; what is set already stays).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/process/procfs.h"
#include "preflight/host_check.h"

namespace stalltrace::preflight {

struct Setting {
  std::string name;
  std::string value;
  std::string origin;  // "environment", or the file's path
};

class Settings {
 public:
  /// All variables whose names begin with NCCL_ or TORCH_NCCL_. Paths are those of the process that `files` names.
  static Settings read(const Environment& environment, const HostFiles& files);

  [[nodiscard]] const std::vector<Setting>& all() const { return all_; }  // by name
  /// Empty if it is not set.
  [[nodiscard]] std::string_view value(std::string_view name) const;
  [[nodiscard]] bool is_set(std::string_view name) const;
  /// Whether a path that a setting names is a file that can be read.
  [[nodiscard]] bool has_file(const std::string& path) const;
  /// As NCCL reads an integer: like strtoll with base 0, so that a word is 0. `otherwise` if it is not set or empty.
  [[nodiscard]] int64_t integer(std::string_view name, int64_t otherwise) const;
  /// A configuration file that NCCL_CONF_FILE names and that can't be read; empty: none.
  [[nodiscard]] const std::string& missing_file() const { return missing_file_; }

 private:
  void add_file(const std::string& path, bool must_exist);
  void add(std::string_view name, std::string_view value, std::string_view origin);

  std::vector<Setting> all_;
  HostFiles files_;
  std::string missing_file_;
};

}  // namespace stalltrace::preflight
