// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/cost.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::lab {
namespace {

using Json = nlohmann::json;

/// The first steps open connections and touch memory.
constexpr size_t kFirstSteps = 3;
constexpr size_t kEnoughSteps = 10;

bool touches(const StepTime& step, std::span<const TimeRange> faults) {
  return std::ranges::any_of(
      faults, [&](const TimeRange& fault) { return step.end_ns >= fault.from_ns && step.start_ns <= fault.to_ns; });
}

constexpr double kNearlyAll = 0.95;

struct Usual {
  int64_t middle_ns = 0;
  int64_t longest_ns = 0;  // nearly all are shorter
};

int64_t quantile(std::vector<int64_t>& lengths, double share) {
  const auto at = lengths.begin() + static_cast<int64_t>(share * static_cast<double>(lengths.size()));
  std::nth_element(lengths.begin(), at, lengths.end());
  return *at;
}

std::optional<Usual> usual_of(std::span<const StepTime> steps, std::span<const TimeRange> faults) {
  std::vector<int64_t> lengths;
  for (size_t i = kFirstSteps; i < steps.size(); ++i) {
    if (!touches(steps[i], faults)) {
      lengths.push_back(steps[i].end_ns - steps[i].start_ns);
    }
  }
  if (lengths.size() < kEnoughSteps) {
    return std::nullopt;
  }
  return Usual{quantile(lengths, 0.5), quantile(lengths, kNearlyAll)};
}

}  // namespace

std::vector<StepTime> read_steps(std::string_view jsonl) {
  std::vector<StepTime> steps;
  for (const std::string_view line : split(jsonl, '\n')) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("start_ns") && json.contains("end_ns") &&
        json["start_ns"].is_number_integer() && json["end_ns"].is_number_integer()) {
      steps.push_back({json["start_ns"].get<int64_t>(), json["end_ns"].get<int64_t>()});
    }
  }
  return steps;
}

std::optional<double> true_cost_ms(std::span<const StepTime> steps, std::span<const TimeRange> faults, bool completed,
                                   int64_t ended_ns) {
  const std::optional<Usual> usual = usual_of(steps, faults);
  if (!usual) {
    return std::nullopt;
  }
  int64_t cost_ns = 0;
  for (const StepTime& step : steps) {
    const int64_t length_ns = step.end_ns - step.start_ns;
    cost_ns += touches(step, faults) && length_ns > usual->longest_ns ? length_ns - usual->middle_ns : 0;
  }
  if (!completed) {
    cost_ns += ended_ns - steps.back().end_ns - usual->middle_ns;
  }
  return static_cast<double>(cost_ns) / static_cast<double>(kNsPerMs);
}

}  // namespace stalltrace::lab
