// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/confined_reading.h"

#include <filesystem>

#include "base/rights/confinement.h"

namespace stalltrace::cli {

void confine_to_reading(std::span<const std::string> inputs, const std::string& out, Makes makes, Network network) {
  Confinement allowed{.connects = network == Network::kConnects};
  for (const std::string& path : inputs) {
    allowed.files.push_back(path + "-shm");  // SQLite's locks on a recording that is being written
  }
  if (!out.empty()) {
    allowed.folders.push_back(std::filesystem::path(out).parent_path().string());
    allowed.subfolders = makes == Makes::kFolder;
  }
  confine(allowed);
}

}  // namespace stalltrace::cli
