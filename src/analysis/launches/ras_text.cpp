// SPDX-License-Identifier: Apache-2.0
#include "analysis/launches/ras_text.h"

#include <fmt/format.h>

#include "analysis/rank_numbers.h"
#include "base/text.h"

namespace stalltrace::analysis {

std::string rank_text(const RasReportView& report, const RasComm& comm, const RasRank& rank) {
  const auto in_job = report.job_rank(comm, rank);
  std::string text = in_job ? fmt::format("rank {}", *in_job)
                            : fmt::format("rank {} of communicator {}", rank.rank, format_hash(comm.hash));
  if (!rank.host.empty()) {
    text += rank.pid == 0 ? fmt::format(" ({})", rank.host) : fmt::format(" ({}, pid {})", rank.host, rank.pid);
  }
  return text;
}

std::string names_of(const RasReportView& report, const RasComm& comm, const std::set<int32_t>& ranks) {
  if (ranks.size() == 1) {
    return rank_text(report, comm, comm.ranks.at(*ranks.begin()));
  }
  std::vector<int32_t> in_job;
  for (const int32_t rank : ranks) {
    if (const auto number = report.job_rank(comm, comm.ranks.at(rank))) {
      in_job.push_back(*number);
    }
  }
  return in_job.size() == ranks.size()
             ? ranks_text(std::move(in_job))
             : fmt::format("{} of communicator {}", ranks_text({ranks.begin(), ranks.end()}), format_hash(comm.hash));
}

std::string launches_text(uint64_t count, std::string_view operation) {
  return operation == "Collective" ? count_of(static_cast<int64_t>(count), "collective")
                                   : fmt::format("{} {}", count, operation);
}

Operation launched_operation(std::string_view name) {
  if (name == "AlltoAll") {
    return Operation::kAllToAll;
  }
  for (int i = 0; i < kOperationCount; ++i) {
    const auto op = static_cast<Operation>(i);
    if (moves_data(op) && display_name(op) == name) {
      return op;
    }
  }
  return Operation::kGroup;
}

Culprit culprit_of(const RasReportView& report, const RasComm& comm, const RasRank& rank) {
  return {rank.host, report.job_rank(comm, rank), rank.pid};
}

Finding finding_of(const RasReportView& report, Cause cause, Severity severity, double confidence) {
  Finding finding{.cause = cause, .severity = severity, .confidence = confidence};
  finding.window = {report.time_ns, report.time_ns};
  finding.op = Operation::kGroup;  // none is known
  return finding;
}

Evidence line_of(const RasReportView& report, const std::string& text, int64_t count) {
  return {"log_line", count, fmt::format("{}: {}", report.file, text), {}};
}

}  // namespace stalltrace::analysis
