// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/confined_reading.h"

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

}  // namespace

void confine_to_reading(std::span<const std::string> inputs, const std::string& out, Makes makes, Network network) {
  Confinement allowed{.connects = network == Network::kConnects};
  allow_locks(inputs, allowed);
  if (!out.empty()) {
    allowed.folders.push_back(std::filesystem::path(out).parent_path().string());
    allowed.subfolders = makes == Makes::kFolder;
  }
  confine(allowed);
}

void confine_to_reading(std::span<const std::string> inputs, std::span<const std::string> folders) {
  Confinement allowed;
  allow_locks(inputs, allowed);
  allowed.folders.assign(folders.begin(), folders.end());
  confine(allowed);
}

}  // namespace stalltrace::cli
