// SPDX-License-Identifier: Apache-2.0
#include "bugs.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "pattern.h"
#include "phases.h"

namespace lab::workload {
namespace {

constexpr int kInputTurnMs = 500;
constexpr double kComputeTurnMs = 100;

/// A pipe without a writer: an input queue whose producer is gone.
void wait_for_input(int most_ms) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) == 0) {
    pollfd entry{.fd = ends[0], .events = POLLIN, .revents = 0};
    poll(&entry, 1, most_ms);
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

void stay_away(Job& job, cudaStream_t stream, std::string_view name) {
  for (std::string kind = bug(name); !kind.empty(); kind = bug(name)) {
    if (kind == "recv") {
      receive_from_previous(job, stream);
    } else if (kind == "compute") {
      compute(kComputeTurnMs);
    } else {
      wait_for_input(kInputTurnMs);
    }
    if (stop_requested()) {
      throw Failure("asked to stop while waiting");
    }
  }
}

void leak_memory() {
  constexpr size_t kMegabyte = 1 << 20;
  static std::vector<std::vector<char>> kept;
  if (const long megabytes = std::atol(bug("leak").c_str()); megabytes > 0) {
    kept.emplace_back(static_cast<size_t>(megabytes) * kMegabyte, 'x');
  }
}

void wait_for_slow_input() {
  if (const int milliseconds = std::atoi(bug("input").c_str()); milliseconds > 0) {
    wait_for_input(milliseconds);
  }
}

void wait_for_disk() {
  if (const long megabytes = std::atol(bug("disk").c_str()); megabytes > 0) {
    write_to_disk("disk", megabytes);
  }
}

void compute_on_device(cudaStream_t stream) {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const Milliseconds asked(std::atof(bug("device").c_str()));
  if (asked.count() <= 0) {
    return;
  }
  const auto run = [](void* argument) {
    const std::unique_ptr<Milliseconds> time(static_cast<Milliseconds*>(argument));
    std::this_thread::sleep_for(*time);
  };
  auto time = std::make_unique<Milliseconds>(asked);
  CHECK_CALL(cudaLaunchHostFunc(stream, run, time.get()));
  static_cast<void>(time.release());
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
