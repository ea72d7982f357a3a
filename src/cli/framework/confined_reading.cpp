// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/confined_reading.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "base/rights/confinement.h"

namespace stalltrace::cli {

namespace {

/// SQLite's locks on recordings that are being written.
void allow_locks(std::span<const std::string> inputs, Confinement& allowed) {
  for (const std::string& path : inputs) {
    allowed.files.push_back(path + "-shm");
  }
}

/// Reading goes on where the kernel refuses, in a line of its own: a container's profile may do that.
void confine_or_report(const Confinement& allowed) {
  if (const Confined confined = confine(allowed); !confined.refused.empty()) {
    const std::string line = fmt::format(
        "stalltrace: the kernel refuses to take the rights that reading does not need ({}); see what this host or "
        "container forbids, or read only what you trust\n",
        confined.refused);
    std::fputs(line.c_str(), stderr);
  }
}

}  // namespace

void confine_to_reading(std::span<const std::string> inputs, const std::string& out, Makes makes, Network network) {
  Confinement allowed{.connects = network == Network::kConnects};
  allow_locks(inputs, allowed);
  if (!out.empty()) {
    allowed.folders.push_back(std::filesystem::path(out).parent_path().string());
    allowed.subfolders = makes == Makes::kFolder;
  }
  confine_or_report(allowed);
}

void confine_to_reading(std::span<const std::string> inputs, std::span<const std::string> folders) {
  Confinement allowed;
  allow_locks(inputs, allowed);
  allowed.folders.assign(folders.begin(), folders.end());
  confine_or_report(allowed);
}

}  // namespace stalltrace::cli
