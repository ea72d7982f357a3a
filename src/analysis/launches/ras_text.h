// SPDX-License-Identifier: Apache-2.0
// How ranks, numbers and errors of RAS's reports are named in findings. Internal to analysis/launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/launches/ras_reports.h"
#include "model/finding.h"
#include "model/operation.h"

namespace stalltrace::analysis {

inline constexpr size_t kLinesListed = 8;
inline constexpr std::string_view kAskAgain =
    "; ask RAS again (stalltrace import --ras localhost:28028): numbers that do not rise show that it stands still";

/// What is found in the newest report.
struct LaunchVerdicts {
  std::vector<Finding> findings;
  std::vector<std::string> notes;
};

/// "rank 5 (10.0.0.1, pid 105)", "rank 1 of communicator 0x... (10.0.0.1, pid 105)"
std::string rank_text(const RasReportView& report, const RasComm& comm, const RasRank& rank);
/// The same for one of `ranks`, which are at least one and all in `comm`; for several "ranks 3 to 6", "ranks 0, 2 of
/// communicator 0x..."
std::string names_of(const RasReportView& report, const RasComm& comm, const std::set<int32_t>& ranks);
/// "6649 AllReduce", "6649 collectives"
std::string launches_text(uint64_t count, std::string_view operation);
/// By NCCL's name of it; kGroup for all operations together, and for one that this version does not know.
Operation launched_operation(std::string_view name);

inline constexpr int32_t kRemoteError = 6;  // ncclRemoteError: what failed is another process

Culprit culprit_of(const RasReportView& report, const RasComm& comm, const RasRank& rank);
/// Of the report's time.
Finding finding_of(const RasReportView& report, Cause cause, Severity severity, double confidence);
/// "FILE: TEXT"
Evidence line_of(const RasReportView& report, const std::string& text, int64_t count = 1);

}  // namespace stalltrace::analysis
