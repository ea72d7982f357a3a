// SPDX-License-Identifier: Apache-2.0
// What a campaign tries: settings (a fault or none, at a dose), drawn with places and moments from a seed. The same
// seed and number give the same draw on every machine. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::lab {

/// What is expected of a setting, and so which rate it counts for.
enum class DrawKind : uint8_t {
  kHealthy,   // nothing was done: no finding
  kNotFault,  // something ordinary that looks like a fault: no finding
  kLoud,      // every fault is named, with its place
  kQuiet,     // as loud, but it may be left unsaid
  kCombined,  // two faults at once, masked, coming and going, during warm-up: as loud
};
std::string_view to_text(DrawKind kind);
inline constexpr DrawKind kDrawKinds[] = {DrawKind::kHealthy, DrawKind::kNotFault, DrawKind::kLoud, DrawKind::kQuiet,
                                          DrawKind::kCombined};

/// In texts: {a}, {b} two different ranks; {before} the rank before a; {other} a rank that is not 0; {start} and
/// {duration} a moment and how long.
struct DrawSetting {
  std::string_view name;
  DrawKind kind = DrawKind::kHealthy;
  std::string_view faults;              // as for --fault, several with a space between
  std::string_view workload_args = "";  // beyond the job's own, a space between
  std::string_view run_args = "";       // for `lab run`
  int slower = 1;                       // its steps take so many times as long: the job has fewer
  int weight = 1;                       // times in each round
  bool hangs = false;                   // the job does not end by itself
  std::string_view on = "";             // workloads that can be asked for it, a space between; empty: all
};
std::span<const DrawSetting> draw_settings();

/// A stream of numbers: splitmix64 (base/hash.h) of a counter that starts at the seed and grows by 2^64 / golden ratio.
class DrawStream {
 public:
  explicit DrawStream(uint64_t seed) : state_(seed) {}
  uint64_t next();
  /// 0 to bound - 1; the bias of the remainder is below 2^-50 for the bounds used here.
  uint64_t below(uint64_t bound) { return next() % bound; }

 private:
  uint64_t state_;
};

struct Draw {
  int64_t number = 0;
  std::string setting;
  DrawKind kind = DrawKind::kHealthy;
  std::string workload;
  std::vector<std::string> arguments;  // of `stalltrace lab run`, but for --out
};

/// Draw `number`: a round tries every setting on every workload `weight` times, in an order drawn anew for each
/// round. With `only`, just the settings whose name contains it; an error if there is none.
Result<Draw> draw(uint64_t seed, int64_t number, std::span<const std::string> workloads, std::string_view only = "");

}  // namespace stalltrace::lab
