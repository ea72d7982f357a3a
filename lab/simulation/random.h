// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine: splitmix64 (base/hash.h). std::normal_distribution and the others
// differ between standard libraries.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/hash.h"

namespace stalltrace::simulation {

class Random {
 public:
  /// Streams of one seed are independent, so that a fault at one rank leaves the other ranks' noise as it is.
  Random(uint64_t seed, uint64_t stream) : state_(splitmix64_fold(splitmix64_mix(seed ^ kSplitmixSeed), stream)) {}

  uint64_t next() { return splitmix64_mix(state_ += kSplitmixSeed); }
  /// In (0, 1).
  double unit() { return (static_cast<double>(next() >> 11) + 0.5) / 9007199254740992.0; }
  double between(double low, double high) { return low + (high - low) * unit(); }
  int64_t below(int64_t limit) { return static_cast<int64_t>(next() % static_cast<uint64_t>(limit)); }
  bool chance(double probability) { return unit() < probability; }
  double exponential(double mean) { return -mean * std::log(unit()); }
  double normal(double mean, double deviation) {
    return mean + deviation * std::sqrt(-2 * std::log(unit())) * std::cos(2 * std::numbers::pi * unit());
  }

 private:
  uint64_t state_;
};

}  // namespace stalltrace::simulation
