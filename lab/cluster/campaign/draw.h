// SPDX-License-Identifier: Apache-2.0
// A campaign's draws: settings (a fault or none, at a dose) with locations and times drawn from a seed. The same seed
// and number give the same draw on every machine. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::lab {

/// The expected result of a setting, which decides the rate that it counts for.
enum class DrawKind : uint8_t {
  kHealthy,       // nothing was done: no finding
  kNotFault,      // normal behaviour that resembles a fault: no finding
  kLoud,          // every fault is named, with its location
  kQuiet,         // as loud, but it may stay unreported
  kCombined,      // two faults at once, masked, intermittent, during warm-up: as loud
  kUncatalogued,  // a disturbance that no cause describes: `unknown`, or no finding
};
std::string_view to_text(DrawKind kind);
inline constexpr DrawKind kDrawKinds[] = {DrawKind::kHealthy, DrawKind::kNotFault, DrawKind::kLoud,
                                          DrawKind::kQuiet,   DrawKind::kCombined, DrawKind::kUncatalogued};
/// Whether something is injected that is to take effect.
inline bool injects(DrawKind kind) { return kind != DrawKind::kHealthy && kind != DrawKind::kNotFault; }

/// Placeholders in texts: {a}, {b} two different ranks; {before} the rank before a; {other} a rank that is not 0;
/// {node} one of two nodes; {start} and {duration} a time and a length.
struct DrawSetting {
  std::string_view name;
  DrawKind kind = DrawKind::kHealthy;
  std::string_view faults;              // as for --fault, separated by blanks
  std::string_view workload_args = "";  // in addition to the job's own, separated by blanks
  std::string_view run_args = "";       // for `lab run`
  int slower = 1;                       // factor on its step time; the job has fewer steps
  int longer = 1;                       // factor on the number of steps
  int weight = 1;                       // number of times in each round
  bool hangs = false;                   // the job does not end by itself
  std::string_view on = "";             // workloads that support it, separated by blanks; empty: all
};
std::span<const DrawSetting> draw_settings();

/// A stream of random numbers: splitmix64 (base/hash.h) of a counter that starts at the seed and grows by 2^64 / golden
/// ratio.
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
  std::vector<std::string> arguments;  // of `stalltrace lab run`, without --out
};

/// Draw `number`: a round tries every setting on every workload `weight` times, in a new random order each round. With
/// `only`, just the settings whose name contains it; an error if there is none.
Result<Draw> draw(uint64_t seed, int64_t number, std::span<const std::string> workloads, std::string_view only = "");

}  // namespace stalltrace::lab
