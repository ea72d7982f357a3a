// SPDX-License-Identifier: Apache-2.0
// Hands the findings of a running trace over, as they are made, to a folder or a server. In a child process: the tracer
// never waits for it, and what finds no room on the way is counted. The recording has all findings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/files/own_folder.h"
#include "base/result.h"
#include "cli/evidence/push.h"
#include "launch/supervision/worker.h"

namespace stalltrace::cli {

/// One thread.
class FindingPush {
 public:
  /// Forks: to be called before the first thread is started. `readers`: of the file in a folder.
  static Result<FindingPush> start(const PushTarget& target, const LoadClient& load, Readers readers);

  /// `line`: one of report/report_json.h (live_finding_to_json); `name`: of the agent's recording (store/hand_over.h),
  /// without its end. At once.
  void send(const std::string& name, const std::string& line);
  /// Why a finding could not be handed over, once when that begins. It is tried again, where that may help.
  std::optional<Error> problem();
  /// Gives what is waiting some seconds, and ends the child. The number of findings that were not handed over.
  uint64_t finish();

 private:
  explicit FindingPush(launch::Worker worker) : worker_(std::move(worker)) {}

  launch::Worker worker_;
  uint64_t made_ = 0;
  uint64_t handed_ = 0;  // as the child reports
};

}  // namespace stalltrace::cli
