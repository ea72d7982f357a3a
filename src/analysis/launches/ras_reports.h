// SPDX-License-Identifier: Apache-2.0
// What reports of NCCL's RAS say, by report and communicator. Internal to analysis/launches.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "model/events/imported/ras_statement.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Which process and GPU: host, pid, GPU. Unknown parts are empty, 0 or -1.
using RasIdentity = std::tuple<std::string, int32_t, int32_t>;

struct RasRank {
  int32_t rank = 0;  // on its communicator
  std::string host;
  int32_t pid = 0;
  std::optional<int32_t> gpu;
  RasState state = RasState::kNotStated;
  int32_t init_error = 0;
  int32_t async_error = 0;
  std::map<std::string, uint64_t> launched;  // by operation; of a report in text only where ranks differ

  [[nodiscard]] RasIdentity identity() const { return {host, pid, gpu.value_or(-1)}; }
  [[nodiscard]] bool missing() const { return state == RasState::kDead || state == RasState::kUnresponsive; }
};

struct RasComm {
  CommHash hash = 0;
  int32_t nranks = 0;
  bool whole_job = false;
  std::map<int32_t, RasRank> ranks;                            // those that are named
  std::map<std::string, std::map<uint64_t, int64_t>> unnamed;  // operation -> count -> ranks
  std::map<int32_t, int64_t> unnamed_init_errors;              // error -> ranks
  std::map<int32_t, int64_t> unnamed_async_errors;             // likewise
  int64_t unnamed_missing = 0;                                 // ranks whose processes did not answer
  bool leaving = false;                                        // a rank takes it down

  [[nodiscard]] int64_t missing() const;
};

struct RasProcess {
  std::string host;
  int32_t pid = 0;
  std::optional<int32_t> gpu;
  RasState state = RasState::kDead;
};

struct RasReportView {
  std::string file;
  std::string text;  // "report of NCCL's RAS 2.29.1: 9 communicators"
  int64_t time_ns = 0;
  bool timed = true;
  bool from_memory = false;  // of the ranks' processes, not of RAS
  std::map<CommHash, RasComm> comms;
  std::vector<RasProcess> processes;

  /// "RAS", "NCCL"
  [[nodiscard]] std::string_view counted_by() const { return from_memory ? "NCCL" : "RAS"; }
  /// The rank in the job of a rank of any communicator; none if no communicator of the whole job names it.
  [[nodiscard]] std::optional<int32_t> job_rank(const RasComm& comm, const RasRank& rank) const;
};

/// All reports, oldest first.
Result<std::vector<RasReportView>> read_ras_reports(EventSource& source);

}  // namespace stalltrace::analysis
