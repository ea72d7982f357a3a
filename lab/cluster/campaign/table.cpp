// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/numbers/median.h"

namespace stalltrace::lab {
namespace {

using Json = nlohmann::ordered_json;

/// Below this cost, a relative error of the cost says nothing.
constexpr double kJudgedCostMs = 200;
constexpr double kCostTolerance = 0.2;
constexpr std::string_view kNoFault = "none";

struct Counts {
  int64_t draws = 0;
  std::array<int64_t, 5> verdicts{};  // by DrawVerdict
  std::vector<double> latencies_ms;
  int64_t live_false = 0;           // draws in which an agent reported something false
  std::vector<double> cost_errors;  // (reported - true) / true
  std::vector<double> seconds;

  [[nodiscard]] int64_t of(DrawVerdict verdict) const { return verdicts[static_cast<size_t>(verdict)]; }
  [[nodiscard]] int64_t judged() const { return draws - of(DrawVerdict::kFailed) - of(DrawVerdict::kCostless); }
  [[nodiscard]] double share_of(DrawVerdict verdict) const {
    return judged() == 0 ? 0 : static_cast<double>(of(verdict)) / static_cast<double>(judged());
  }
  [[nodiscard]] int64_t costs_within() const {
    return std::ranges::count_if(cost_errors, [](double error) { return std::abs(error) <= kCostTolerance; });
  }

  void add(const DrawResult& result) {
    ++draws;
    ++verdicts[static_cast<size_t>(result.score.verdict)];
    seconds.push_back(result.seconds);
    live_false += result.score.live_false.empty() ? 0 : 1;
    for (const FaultScore& fault : result.score.faults) {
      if (fault.latency_ms) {
        latencies_ms.push_back(*fault.latency_ms);
      }
      if (fault.cost_ms && fault.reported_ms && *fault.cost_ms >= kJudgedCostMs) {
        cost_errors.push_back((*fault.reported_ms - *fault.cost_ms) / *fault.cost_ms);
      }
    }
  }
};

std::optional<double> median_of(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(median(values));
}

/// By setting, in the order of the settings.
using BySetting = std::map<std::pair<DrawKind, std::string>, Counts>;

/// Reported causes by injected cause; `none`: reported without a fault.
using Confusion = std::map<std::string, std::map<std::string, int64_t>>;

Confusion confusion_of(std::span<const DrawResult> results) {
  Confusion confusion;
  for (const DrawResult& result : results) {
    if (result.score.verdict == DrawVerdict::kFailed) {
      continue;
    }
    for (const FaultScore& fault : result.score.faults) {
      ++confusion[fault.cause][fault.reported];
    }
    if (result.score.faults.empty()) {
      const std::vector<std::string>& false_causes = result.score.false_causes;
      ++confusion[std::string(kNoFault)][false_causes.empty() ? "nothing" : false_causes.front()];
    }
  }
  return confusion;
}

std::string per_cent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string_view target_of(DrawKind kind) {
  switch (kind) {
    case DrawKind::kHealthy:
    case DrawKind::kNotFault:
      return "no finding in 99 %";
    case DrawKind::kQuiet:
      return "90 % right, 2 % wrong at most";
    default:
      return "all right";
  }
}

std::string latency_text(const Counts& counts) {
  const auto middle = median_of(counts.latencies_ms);
  const std::string text =
      middle ? fmt::format("{:.1f} s, {} of {}", *middle / 1e3, counts.latencies_ms.size(), counts.judged()) : "-";
  return counts.live_false == 0 ? text : fmt::format("{}; false {}", text, counts.live_false);
}

std::string cost_text(const Counts& counts) {
  const auto middle = median_of(counts.cost_errors);
  return middle ? fmt::format("{:+.0f} %, {} of {}", 100 * *middle, counts.costs_within(), counts.cost_errors.size())
                : "-";
}

std::string kinds_table(std::span<const DrawResult> results) {
  std::string table =
      "| kind | draws | right | abstained | wrong | costless | failed | right | wrong | wanted |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const DrawKind kind : kDrawKinds) {
    Counts counts;
    for (const DrawResult& result : results) {
      if (result.draw.kind == kind) {
        counts.add(result);
      }
    }
    if (counts.draws > 0) {
      table += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", to_text(kind), counts.draws,
                           counts.of(DrawVerdict::kRight), counts.of(DrawVerdict::kAbstained),
                           counts.of(DrawVerdict::kWrong), counts.of(DrawVerdict::kCostless),
                           counts.of(DrawVerdict::kFailed), per_cent(counts.share_of(DrawVerdict::kRight)),
                           per_cent(counts.share_of(DrawVerdict::kWrong)), target_of(kind));
    }
  }
  return table;
}

std::string settings_table(const BySetting& settings) {
  std::string table =
      "| setting | kind | draws | right | abstained | wrong | costless | failed | named live after, in | cost error, "
      "within 20 % "
      "|\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const auto& [key, counts] : settings) {
    table += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", key.second, to_text(key.first),
                         counts.draws, counts.of(DrawVerdict::kRight), counts.of(DrawVerdict::kAbstained),
                         counts.of(DrawVerdict::kWrong), counts.of(DrawVerdict::kCostless),
                         counts.of(DrawVerdict::kFailed), latency_text(counts), cost_text(counts));
  }
  return table;
}

std::string confusion_table(const Confusion& confusion) {
  std::string table = "| injected | reported |\n| --- | --- |\n";
  for (const auto& [cause, reported] : confusion) {
    std::vector<std::string> words;
    for (const auto& [name, count] : reported) {
      words.push_back(fmt::format("{} {}", name, count));
    }
    table += fmt::format("| {} | {} |\n", cause, fmt::join(words, ", "));
  }
  return table;
}

BySetting settings_of(std::span<const DrawResult> results) {
  BySetting settings;
  for (const DrawResult& result : results) {
    settings[{result.draw.kind, result.draw.setting}].add(result);
  }
  return settings;
}

Counts total_of(std::span<const DrawResult> results) {
  Counts total;
  for (const DrawResult& result : results) {
    total.add(result);
  }
  return total;
}

std::string overall_text(const Counts& total) {
  double seconds = 0;
  for (const double each : total.seconds) {
    seconds += each;
  }
  std::string text = fmt::format("{} draws in {:.0f} min, {:.1f} s each.", total.draws, seconds / 60,
                                 total.draws == 0 ? 0 : seconds / static_cast<double>(total.draws));
  if (const auto latency = median_of(total.latencies_ms)) {
    text += fmt::format(" Median latency of a live finding {:.1f} s ({} named; false ones in {} draws).",
                        *latency / 1e3, total.latencies_ms.size(), total.live_false);
  }
  if (!total.cost_errors.empty()) {
    text += fmt::format(" Cost within 20 % of the truth in {} of {} draws.", total.costs_within(),
                        total.cost_errors.size());
  }
  return text + "\n";
}

Json counts_json(const Counts& counts) {
  return {{"draws", counts.draws},
          {"right", counts.of(DrawVerdict::kRight)},
          {"abstained", counts.of(DrawVerdict::kAbstained)},
          {"wrong", counts.of(DrawVerdict::kWrong)},
          {"costless", counts.of(DrawVerdict::kCostless)},
          {"failed", counts.of(DrawVerdict::kFailed)},
          {"median_latency_ms", or_null(median_of(counts.latencies_ms))},
          {"named_live", counts.latencies_ms.size()},
          {"draws_false_live", counts.live_false},
          {"median_cost_error", or_null(median_of(counts.cost_errors))},
          {"costs_judged", counts.cost_errors.size()},
          {"costs_within_20_percent", counts.costs_within()}};
}

}  // namespace

std::string matrix_to_markdown(std::span<const DrawResult> results) {
  return overall_text(total_of(results)) + "\n" + kinds_table(results) + "\n" + settings_table(settings_of(results)) +
         "\n" + confusion_table(confusion_of(results));
}

std::string matrix_to_json(std::span<const DrawResult> results) {
  Json settings = Json::array();
  for (const auto& [key, counts] : settings_of(results)) {
    Json row = {{"setting", key.second}, {"kind", to_text(key.first)}};
    row.update(counts_json(counts));
    settings.push_back(std::move(row));
  }
  const Json root = {{"schema", 1},
                     {"total", counts_json(total_of(results))},
                     {"settings", settings},
                     {"confusion", confusion_of(results)}};
  return root.dump(2) + "\n";
}

}  // namespace stalltrace::lab
