// SPDX-License-Identifier: Apache-2.0
#include "job.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

#include "store.h"

namespace lab::workload {
namespace {

constexpr std::chrono::milliseconds kWatchTurn{100};

volatile std::sig_atomic_t stop_signal = 0;  // the only thing a handler may write

}  // namespace

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) {
    throw Failure(std::string(call) + ": " + ncclGetErrorString(result) + " (" + ncclGetLastError(nullptr) + ")");
  }
}

void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) {
    throw Failure(std::string(call) + ": " + cudaGetErrorString(error));
  }
}

Buffer::Buffer(size_t bytes) { CHECK_CALL(cudaMalloc(&data_, bytes)); }
Buffer::~Buffer() { cudaFree(data_); }
Buffer::Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}

Job::Job(const Options& options, const RankEnvironment& environment) : options_(options), environment_(environment) {
  int devices = 0;
  CHECK_CALL(cudaGetDeviceCount(&devices));
  CHECK_CALL(cudaSetDevice(environment.local_rank % devices));
  ncclUniqueId id{};
  if (environment.rank == 0) {
    CHECK_CALL(ncclGetUniqueId(&id));
  }
  if (const auto shared = share_id(environment, &id); !shared) {
    throw Failure(shared.error());
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  CHECK_CALL(ncclCommInitRankConfig(&comm_, environment.world_size, id, environment.rank, &config));
  comms_.push_back(comm_);
  watchdog_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Job::~Job() {
  watchdog_.request_stop();
  watchdog_.join();
  for (ncclComm_t comm : comms_) {
    ncclCommDestroy(comm);
  }
}

ncclComm_t Job::split(int color) {
  ncclComm_t child = nullptr;
  CHECK_CALL(ncclCommSplit(comm_, color, rank(), &child, nullptr));
  const std::lock_guard lock(mutex_);
  comms_.push_back(child);
  return child;
}

void Job::check_alive() const {
  if (const ncclResult_t error = error_; error != ncclSuccess) {
    throw Failure(std::string("communicator aborted: ") + ncclGetErrorString(error) + " (" + ncclGetLastError(nullptr) +
                  ")");
  }
}

void Job::watch(const std::stop_token& stop) {
  double failed_at = 0;
  while (!stop.stop_requested()) {
    if (const ncclResult_t error = first_error(); error != ncclSuccess) {
      if (failed_at == 0) {
        failed_at = seconds_now();
        std::fprintf(stderr, "nccl-train: rank %d: %s\n", rank(), ncclGetErrorString(error));
      }
      if (seconds_now() - failed_at >= options_.watchdog_seconds) {
        error_ = error;
        abort_all();
        return;
      }
    }
    std::this_thread::sleep_for(kWatchTurn);
  }
}

ncclResult_t Job::first_error() {
  const std::lock_guard lock(mutex_);
  for (ncclComm_t comm : comms_) {
    ncclResult_t error = ncclSuccess;
    ncclCommGetAsyncError(comm, &error);
    if (error != ncclSuccess && error != ncclInProgress) {
      return error;
    }
  }
  return ncclSuccess;
}

void Job::abort_all() {
  const std::lock_guard lock(mutex_);
  for (ncclComm_t comm : comms_) {
    ncclCommAbort(comm);
  }
  comms_.clear();
}

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_signal = 1; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

bool stop_requested() { return stop_signal != 0; }

LogFile open_log(const std::string& path) {
  if (path.empty()) {
    return nullptr;
  }
  LogFile file(std::fopen(path.c_str(), "we"));
  if (file == nullptr) {
    throw Failure("--log " + path + ": it cannot be written");
  }
  return file;
}

}  // namespace lab::workload
