// SPDX-License-Identifier: Apache-2.0
#include "phases.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "pattern.h"
#include "script.h"

namespace lab::workload {
namespace {

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

}  // namespace lab::workload
