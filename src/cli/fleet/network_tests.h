// SPDX-License-Identifier: Apache-2.0
// `stalltrace preflight --network`: one process for each rank of a launch; that of rank 0 coordinates and reports. What
// such a process does is here for servers too, which make the tests for `preflight --nodes`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "cli/framework/console.h"
#include "cli/framework/flag.h"
#include "preflight/peers/judge/judge.h"
#include "preflight/peers/launch.h"

namespace stalltrace::cli {

Environment own_environment();

/// Checks this host and takes part as a rank; gives up rights before the tests. With a secret this is a server's
/// process: what only a job's has is not checked. Returns whether a check failed.
Result<bool> take_part_in_launch(const preflight::Launch& launch, const Environment& environment);

/// What rank 0's process does with what it learns. All of it is called in that process, on one thread.
struct LaunchReporter {
  std::function<void(const std::string&)> announce;  // before each step, for people
  std::function<void(const Error&)> rank_failed;  // rank 0 itself, a child, took no part or stopped: between two steps
  /// The report, before the other ranks end.
  std::function<Status(const preflight::LaunchResults&, const preflight::Judgement&)> report;
  std::vector<preflight::HostCheck> known = {};  // checks of the launch that were made before
};
/// Coordinates, with a child as rank 0; gives up rights before. Returns whether a check failed.
Result<bool> coordinate_launch(const preflight::Launch& launch, const Environment& environment,
                               const LaunchReporter& reporter);

class NetworkTests {
 public:
  /// --network and what goes with it.
  [[nodiscard]] std::vector<Flag> flags();
  [[nodiscard]] bool given() const { return given_; }
  [[nodiscard]] bool with_collectives() const { return launch_.collectives.wanted; }
  /// The limits of the flags, without ranks. Errors (kUsage): no limit.
  [[nodiscard]] Result<preflight::Launch> limits() const;

  /// Returns the exit code, the same on all ranks. Errors (kUsage): the environment is not that of a launch.
  [[nodiscard]] Result<int> run(Console& console, const Environment& environment, bool json);

 private:
  [[nodiscard]] Status read_launch(const Environment& environment);
  [[nodiscard]] Result<int> coordinate(Console& console, const Environment& environment, bool json);

  bool given_ = false;
  int64_t port_ = preflight::kDefaultPort;
  preflight::Launch launch_;
};

}  // namespace stalltrace::cli
