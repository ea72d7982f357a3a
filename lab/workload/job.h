// SPDX-License-Identifier: Apache-2.0
// Shared by all modes of the workload: errors, device buffers, the communicator with its watchdog, and stopping.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "options.h"
#include "script.h"

namespace lab::workload {

/// A failed call; the text names it. Ends the program with exit code 1.
class Failure : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check(ncclResult_t result, const char* call);
void check(cudaError_t error, const char* call);
#define CHECK_CALL(expression) ::lab::workload::check((expression), #expression)

/// Device memory, filled and read by the host through copies.
class Buffer {
 public:
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;

  [[nodiscard]] void* get() const { return data_; }
  /// `offset_bytes` into it
  [[nodiscard]] void* at(size_t offset_bytes) const { return static_cast<std::byte*>(data_) + offset_bytes; }

 private:
  void* data_ = nullptr;
};

/// A rank's communicators: one over all ranks, and splits of it. The watchdog checks for asynchronous errors every 100
/// ms, like PyTorch's, and aborts all communicators some time after one, so that a rank whose peer died ends instead of
/// waiting for ever.
class Job {
 public:
  Job(const Options& options, const RankEnvironment& environment);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] ncclComm_t comm() const { return comm_; }
  /// A new communicator with the ranks of the same colour; owned by the job.
  ncclComm_t split(int color);
  [[nodiscard]] int rank() const { return environment_.rank; }
  [[nodiscard]] int nranks() const { return environment_.world_size; }
  [[nodiscard]] const Options& options() const { return options_; }

  /// Throws once the watchdog has aborted, since the awaited result is missing.
  void check_alive() const;

 private:
  void watch(const std::stop_token& stop);
  ncclResult_t first_error();
  void abort_all();

  const Options options_;
  const RankEnvironment environment_;
  ncclComm_t comm_ = nullptr;
  std::mutex mutex_;
  std::vector<ncclComm_t> comms_;  // all of them, under mutex_
  std::atomic<ncclResult_t> error_ = ncclSuccess;
  std::jthread watchdog_;
};

/// Makes SIGTERM and SIGINT end the work after the step under way.
void install_stop_signals();
bool stop_requested();

/// Null for no path; throws if it cannot be written.
LogFile open_log(const std::string& path);

}  // namespace lab::workload
