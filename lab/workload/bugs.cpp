// SPDX-License-Identifier: Apache-2.0
#include "bugs.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "pattern.h"

namespace lab::workload {
namespace {

constexpr size_t kBlockBytes = 1U << 20U;
constexpr size_t kBlockAlignment = 4096;
constexpr int kInputTurnMs = 500;
constexpr double kComputeTurnMs = 100;

/// A pipe that nobody writes to: an input queue whose producer is gone.
void wait_for_input() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) == 0) {
    pollfd entry{.fd = ends[0], .events = POLLIN, .revents = 0};
    poll(&entry, 1, kInputTurnMs);
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

void receive_from_previous(Job& job, cudaStream_t stream) {
  const Buffer buffer(type_bytes(job.options().dtype));
  const int previous = (job.rank() + job.nranks() - 1) % job.nranks();
  CHECK_CALL(ncclRecv(buffer.get(), 1, job.options().dtype, previous, job.comm(), stream));
  CHECK_CALL(cudaStreamSynchronize(stream));
  job.check_alive();
}

}  // namespace

std::string bug(std::string_view name) {
  std::string kind;
  if (const char* prefix = std::getenv("LAB_BUGS"); prefix != nullptr) {
    std::ifstream(prefix + std::string(name)) >> kind;
  }
  return kind;
}

void stay_away(Job& job, cudaStream_t stream) {
  for (std::string kind = bug("skip"); !kind.empty(); kind = bug("skip")) {
    if (kind == "recv") {
      receive_from_previous(job, stream);
    } else if (kind == "compute") {
      compute(kComputeTurnMs);
    } else {
      wait_for_input();
    }
    if (stop_requested()) {
      throw Failure("told to stop while waiting");
    }
  }
}

void write_checkpoint() {
  const long megabytes = std::atol(bug("disk").c_str());
  if (megabytes <= 0) {
    return;
  }
  const std::string path = std::string(std::getenv("LAB_BUGS")) + "disk.checkpoint";
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_DIRECT, 0600);
  void* block = nullptr;
  if (file >= 0 && posix_memalign(&block, kBlockAlignment, kBlockBytes) == 0) {
    std::memset(block, 1, kBlockBytes);
    for (long written = 0; written<megabytes&& ::write(file, block, kBlockBytes)> 0; ++written) {
    }
    fdatasync(file);
  }
  std::free(block);
  if (file >= 0) {
    ::close(file);
  }
}

bool mismatched_all_reduce(Job& job, void* gradients, cudaStream_t stream) {
  const std::string kind = bug("mismatch");
  const Options& options = job.options();
  if (kind == "count") {
    CHECK_CALL(ncclAllReduce(gradients, gradients, options.elements / 2, options.dtype, ncclSum, job.comm(), stream));
  } else if (kind == "datatype") {
    const ncclDataType_t other = options.dtype == ncclFloat16 ? ncclInt8 : ncclFloat16;
    CHECK_CALL(ncclAllReduce(gradients, gradients, options.elements, other, ncclSum, job.comm(), stream));
  } else if (kind == "op") {
    CHECK_CALL(ncclReduce(gradients, gradients, options.elements, options.dtype, ncclSum, 0, job.comm(), stream));
  } else {
    return false;
  }
  return true;
}

}  // namespace lab::workload
