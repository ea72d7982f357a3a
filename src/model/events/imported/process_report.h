// SPDX-License-Identifier: Apache-2.0
// What a job's output has of the end of single processes, as the text of a row of log_line: PyTorch's watchdog thread
// that ended with an error or stands still (ProcessGroupNCCL.cpp, 1.13 to 2.9), NCCL's last error, and processes that
// torchrun saw end (torch/distributed/elastic, 1.9 to 2.9).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stalltrace {

/// A process that torchrun saw end.
struct EndedProcess {
  bool first = false;           // torchrun calls it the root cause: the first of its failures
  std::optional<int32_t> rank;  // in the job
  std::optional<int32_t> local_rank;
  int32_t pid = 0;
  int32_t exit_code = 0;  // below 0: the number of the signal that ended it
  std::string_view host;  // empty: not named
  std::string_view time;  // "2026-05-05_10:00:03", of the host's clock; empty: not named
};
/// The text of its row, from which read_process_report() has it back.
std::string text_of(const EndedProcess& process);

struct ProcessReport {
  enum class Kind : uint8_t {
    kCudaError,     // CUDA reported an error that ended the watchdog, or the process
    kNcclError,     // NCCL did, as the watchdog saw it: `error`
    kPeerGone,      // NCCL's last error: the connection to `peer` was closed
    kDuplicateGpu,  // two ranks of a communicator have one GPU: `error`
    kStuck,         // the watchdog itself made no progress for `stuck_s`: a call of CUDA or NCCL does not return
    kEnded,         // `ended`
  };
  Kind kind = Kind::kStuck;
  std::string_view error;  // from the words of the error on
  std::string_view peer;   // "10.0.0.1<4545>"
  int64_t stuck_s = 0;
  EndedProcess ended;
};

/// None for all other lines. Views point into `line`.
std::optional<ProcessReport> read_process_report(std::string_view line);

}  // namespace stalltrace
