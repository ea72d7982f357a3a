// SPDX-License-Identifier: Apache-2.0
// What a report of NCCL's RAS says of one rank or process, as the text of a row of log_line on a node whose
// agent_version is kRasFormat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/events/ids.h"

namespace stalltrace {

/// Node::agent_version of import/nccl_ras.
inline constexpr std::string_view kRasFormat = "nccl_ras";

/// Node::agent_version of the same statements, read from the memory of the ranks' processes (autopsy).
inline constexpr std::string_view kNcclMemoryFormat = "nccl_memory";

/// Of a rank on a communicator, by NCCL's own words; the last two also of a process.
enum class RasState : uint8_t {
  kNotStated,
  kInit,  // it sets the communicator up
  kRunning,
  kFinalize,  // it takes the communicator down
  kAbort,
  kNoComm,        // its process answered, and has no such communicator (any more, or yet)
  kUnresponsive,  // its process did not answer
  kDead,          // NCCL gave its process up: it did not answer for a minute
};
/// "unstated", "init", "running", "finalize", "abort", "nocomm", "unresponsive", "dead"
std::string_view to_text(RasState state);

struct RasStatement {
  CommHash hash = 0;            // NCCL's own; 0: of a process, whatever its communicators
  int32_t nranks = 0;           // of the communicator
  bool whole_job = false;       // the communicator has all GPUs of the job
  std::optional<int32_t> rank;  // on the communicator; none: `members` ranks that are not named, or a process
  int64_t members = 1;
  std::string host;  // an IP address; empty: not stated
  int32_t pid = 0;   // 0: not stated
  std::optional<int32_t> gpu;
  RasState state = RasState::kNotStated;
  int32_t init_error = 0;   // a number of ncclResult_t other than ncclSuccess and ncclInProgress; 0: none
  int32_t async_error = 0;  // likewise
  /// Calls launched so far, by NCCL's name of the operation; "Collective" stands for all operations together.
  std::vector<std::pair<std::string, uint64_t>> launched;
};

/// "comm 0x1f nranks 32 job rank 21 host 10.0.0.2 pid 99 gpu 5 state running launched AllReduce 6649 Broadcast 12": at
/// most 1,024 bytes; what finds no room there is left out.
std::string ras_text(const RasStatement& statement);
/// None for any other text.
std::optional<RasStatement> ras_statement_from_text(std::string_view text);

}  // namespace stalltrace
