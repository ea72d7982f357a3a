// SPDX-License-Identifier: Apache-2.0
#include "lab/simulation/draw.h"

#include <algorithm>

#include "lab/simulation/random.h"
#include "lab/simulation/shapes.h"

namespace stalltrace::simulation {
namespace {

constexpr FaultKind kKinds[] = {
    FaultKind::kLateRank,          FaultKind::kSlowDevice,           FaultKind::kDeadRank, FaultKind::kProcessStopped,
    FaultKind::kMissingCollective, FaultKind::kMismatchedCollective, FaultKind::kSlowLink, FaultKind::kPacketLoss};
constexpr FaultKind kOfFabric[] = {FaultKind::kFabricErrors, FaultKind::kCongestion};
constexpr double kShareOfFabric = 0.2;

int one_of(Random& random, std::initializer_list<int> values) {
  return *(values.begin() + random.below(static_cast<int64_t>(values.size())));
}

void draw_size(Random& random, const DrawLimits& limits, JobOptions& options) {
  do {
    options.ranks_per_node = one_of(random, {2, 4, 8});
    options.nodes = one_of(random, {1, 2, 4, 8, 16, 32, 64, 128});
  } while (options.ranks() < limits.fewest_ranks || options.ranks() > limits.most_ranks);
  options.steps = limits.fewest_steps + static_cast<int>(random.below(limits.most_steps - limits.fewest_steps + 1));
}

void draw_timing(Random& random, JobOptions& options) {
  const double scale = random.between(0.5, 3);
  options.forward_ms *= scale;
  options.backward_ms *= scale;
  // The CPU is ahead of its device, in step with it, or behind.
  options.launch_ms = options.backward_ms / options.units * random.between(0.1, 1.3);
  options.noise_ms = random.between(0.05, 1);
  options.uneven = std::max(options.uneven, random.between(0, 0.06));
  options.warm_up_ms = random.between(0, 2000);
  // A CPU that needs half as long again is healthy where it is ahead of its device all the same.
  const bool ahead = 1.5 * (options.launch_ms + options.noise_ms) < 0.7 * options.forward_ms / options.units;
  if (ahead && random.chance(0.5)) {
    options.slow_launchers = {static_cast<int>(random.below(options.ranks()))};
  }
  for (Pause& pause : options.pauses) {
    pause.seconds *= random.between(0.2, 2.5);
    pause.computes = random.chance(0.6);
  }
}

void draw_recording(Random& random, const DrawLimits& limits, JobOptions& options) {
  options.plugin = random.chance(0.5);
  options.attach_share = random.chance(0.35) ? random.between(0.15, 0.5) : 0;
  options.clock_error_ms = random.chance(0.5) ? random.between(1, 50) : 0;
  options.cut_share = limits.cut && random.chance(0.5) ? random.between(0.55, 0.99) : 0;
  options.tcp = random.chance(0.6);
  options.waits = random.chance(0.8);
  options.spins = random.chance(0.6);
  options.ports = random.chance(0.3);
  options.marked = random.chance(0.75);
}

}  // namespace

JobOptions draw_healthy(uint64_t seed, const DrawLimits& limits, std::string_view shape) {
  Random random(seed, 0xd0);
  JobOptions options{.seed = seed};
  const auto drawn = static_cast<size_t>(random.below(static_cast<int64_t>(shapes().size())));
  draw_size(random, limits, options);
  // Names of the table, with a size that all of them take.
  (void)apply_shape(shape.empty() ? shapes()[drawn].name : shape, options);
  draw_timing(random, options);
  draw_recording(random, limits, options);
  return options;
}

JobOptions draw_faulty(uint64_t seed, std::optional<FaultKind> kind, const DrawLimits& limits, std::string_view shape) {
  JobOptions options = draw_healthy(seed, limits, shape);
  Random random(seed, 0xf0);
  Fault fault{.kind = kind ? *kind : kKinds[random.below(std::size(kKinds))]};
  Random fabric(seed, 0xfa);  // of its own: the other draws of a seed are as they were
  if (!kind && fabric.chance(kShareOfFabric)) {
    fault.kind = kOfFabric[fabric.below(std::size(kOfFabric))];
  }
  options.cut_share = 0;
  fault.rank = static_cast<int>(random.below(options.ranks()));
  // Once a restarted job has settled again.
  fault.from = options.restart_at > 0 ? options.restart_at + 6 : options.steps / 3;
  switch (fault.kind) {
    case FaultKind::kLateRank:
    case FaultKind::kSlowDevice:
      fault.ms = random.chance(0.5) ? 15 : 80;
      fault.computes = random.chance(0.5);
      break;
    case FaultKind::kProcessStopped:
      fault.ms = random.chance(0.5) ? 0 : random.between(500, 3000);
      break;
    case FaultKind::kDeadRank:
      options.launcher_s = random.chance(0.5) ? random.between(0.5, 4) : 0;
      break;
    case FaultKind::kMissingCollective:
      fault.computes = random.chance(0.5);
      fault.crosses = has_crossing_groups(options) && random.chance(0.5);
      break;
    case FaultKind::kFabricErrors:
    case FaultKind::kCongestion:
      fault.factor = random.between(3, 8);
      options.tcp = false;
      options.ports = true;
      break;
    case FaultKind::kSlowLink:
    case FaultKind::kPacketLoss:
      fault.factor = random.between(3, 8);
      fault.per_step = random.between(0.3, 1);
      options.tcp = true;
      break;
    case FaultKind::kMismatchedCollective:
      break;
  }
  options.faults = {fault};
  return options;
}

}  // namespace stalltrace::simulation
