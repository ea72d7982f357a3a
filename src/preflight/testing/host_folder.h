// SPDX-License-Identifier: Apache-2.0
// A host made of files.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "preflight/host_check.h"

namespace stalltrace::preflight {

class HostFolder {
 public:
  HostFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "stalltrace-host-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  ~HostFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  HostFolder(const HostFolder&) = delete;
  HostFolder& operator=(const HostFolder&) = delete;

  /// `path` is relative: "sys/class/net/eth0/mtu".
  std::string write(const std::string& path, const std::string& content) const {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
    return file.string();
  }
  [[nodiscard]] HostFiles files() const {
    return {.proc = (root_ / "proc").string(), .sys = (root_ / "sys").string(), .etc = (root_ / "etc").string()};
  }

 private:
  std::filesystem::path root_;
};

}  // namespace stalltrace::preflight
