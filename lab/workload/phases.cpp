// SPDX-License-Identifier: Apache-2.0
#include "phases.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "pattern.h"

namespace lab::workload {
namespace {

constexpr size_t kBlockBytes = 1U << 20U;
constexpr size_t kBlockAlignment = 4096;
/// Uneven messages have this many sizes, up to the whole bucket.
constexpr unsigned kSizes = 8;
/// The time of a warm-up step varies in this many parts of --warm-up-ms, by rank and step.
constexpr unsigned kWarmUpShares = 8;

bool is_due(long every, long number) { return every > 0 && (number + 1) % every == 0; }

}  // namespace

void begin_step(const Job& job, long number) {
  const Options& options = job.options();
  if (options.device_ms > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.device_ms));
  }
  if (number < options.warm_up_steps) {
    const unsigned share = 1 + pattern(job.rank(), static_cast<size_t>(number), 0) % kWarmUpShares;
    compute(options.warm_up_ms * share / kWarmUpShares);
  }
}

void end_step(const Job& job, long number) {
  const Options& options = job.options();
  if (is_due(options.checkpoint_every, number)) {
    write_to_disk("checkpoint", options.checkpoint_mbytes);
  }
  if (job.rank() == 0 && is_due(options.evaluate_every, number)) {
    compute(options.evaluate_ms);
  }
}

void end_job(const Job& job) {
  if (job.rank() == 0) {
    compute(job.options().save_ms);
  }
}

size_t bucket_elements(const Options& options, long number, int bucket) {
  if (!options.uneven) {
    return options.elements;
  }
  const unsigned share = 1 + pattern(bucket, static_cast<size_t>(number), 0) % kSizes;
  return std::max<size_t>(1, options.elements * share / kSizes);
}

void write_to_disk(const char* name, long megabytes) {
  const char* prefix = std::getenv("LAB_BUGS");
  const std::string path = (prefix == nullptr ? "./" : prefix) + std::string(name) + ".written";
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_DIRECT, 0600);
  void* block = nullptr;
  if (file >= 0 && posix_memalign(&block, kBlockAlignment, kBlockBytes) == 0) {
    std::memset(block, 1, kBlockBytes);
    for (long written = 0; written<megabytes&& ::write(file, block, kBlockBytes)> 0; ++written) {
      // one block after the other
    }
    fdatasync(file);
  }
  std::free(block);
  if (file >= 0) {
    ::close(file);
  }
}

}  // namespace lab::workload
