// SPDX-License-Identifier: Apache-2.0
// `stalltrace preflight --network`: one process for each rank of a launch; that of rank 0 coordinates and reports.
#pragma once

#include <cstdint>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "cli/framework/console.h"
#include "cli/framework/flag.h"
#include "preflight/peers/launch.h"

namespace stalltrace::cli {

class NetworkTests {
 public:
  /// --network and what goes with it.
  [[nodiscard]] std::vector<Flag> flags();
  [[nodiscard]] bool given() const { return given_; }

  /// Returns the exit code, the same on all ranks. Errors (kUsage): the environment is not that of a launch.
  [[nodiscard]] Result<int> run(Console& console, const Environment& environment, bool json);

 private:
  [[nodiscard]] Status read_launch(const Environment& environment);
  [[nodiscard]] Result<int> coordinate(Console& console, const Environment& environment, bool json);
  [[nodiscard]] Result<bool> take_part(const Environment& environment) const;

  bool given_ = false;
  int64_t port_ = preflight::kDefaultPort;
  preflight::Launch launch_;
};

}  // namespace stalltrace::cli
