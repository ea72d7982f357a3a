// SPDX-License-Identifier: Apache-2.0
#include "bugs.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pattern.h"
#include "script.h"

namespace lab::workload {
namespace {

constexpr double kComputeTurnMs = 100;

void receive_from_previous(Job& job, cudaStream_t stream) {
  const Buffer buffer(type_bytes(job.options().dtype));
  const int previous = (job.rank() + job.nranks() - 1) % job.nranks();
  CHECK_CALL(ncclRecv(buffer.get(), 1, job.options().dtype, previous, job.comm(), stream));
  CHECK_CALL(cudaStreamSynchronize(stream));
  job.check_alive();
}

}  // namespace

void stay_away(Job& job, cudaStream_t stream, std::string_view name) {
  for (std::string kind = bug(name); !kind.empty(); kind = bug(name)) {
    if (kind == "recv") {
      receive_from_previous(job, stream);
    } else if (kind == "compute") {
      compute(kComputeTurnMs);
    } else {
      wait_for_input();
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
