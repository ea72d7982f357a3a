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
#include "lab/cluster/campaign/reliability.h"

namespace stalltrace::lab {
namespace {

using Json = nlohmann::ordered_json;

/// Below this cost, a relative error of the cost says nothing.
constexpr double kJudgedCostMs = 200;
constexpr double kCostTolerance = 0.2;
constexpr std::string_view kNoFault = "none";

struct Counts {
  int64_t draws = 0;
  std::array<int64_t, kDrawVerdicts> verdicts{};  // by DrawVerdict
  std::vector<double> latencies_ms;
  int64_t live_false = 0;           // draws in which an agent reported something false
  std::vector<double> cost_errors;  // (reported - true) / true
  std::vector<double> seconds;
  // Of the wrong draws: each belongs to one of these.
  int64_t failed_traced = 0;                                 // the run failed, and not without the tracer
  int64_t innocent_blamed = 0;                               // by location
  int64_t other_cause = 0;                                   // the location is a fault's
  int64_t live_only = 0;                                     // nothing false but what agents reported live
  int64_t costless_named = 0;                                // of the costless ones
  int64_t draws_waiting = 0;                                 // with findings that are `waiting` and name no fault
  int64_t duplicates = 0;                                    // findings of a fault that another finding names
  std::map<std::string, std::pair<int64_t, int64_t>> named;  // by cause: faults named, and faults

  [[nodiscard]] int64_t of(DrawVerdict verdict) const { return verdicts[static_cast<size_t>(verdict)]; }
  [[nodiscard]] int64_t judged() const { return draws - of(DrawVerdict::kJobFailed) - of(DrawVerdict::kCostless); }
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
    draws_waiting += result.score.waiting > 0 ? 1 : 0;
    if (result.score.verdict == DrawVerdict::kWrong) {
      ++why_wrong(result);
    }
    for (const FaultScore& fault : result.score.faults) {
      auto& [right, all] = named[fault.cause];
      right += fault.findings > 0 ? 1 : 0;
      ++all;
      duplicates += fault.duplicates();
      costless_named += result.score.verdict == DrawVerdict::kCostless && fault.findings > 0 ? 1 : 0;
      if (fault.latency_ms) {
        latencies_ms.push_back(*fault.latency_ms);
      }
      if (fault.cost_ms && fault.reported_ms && *fault.cost_ms >= kJudgedCostMs) {
        cost_errors.push_back((*fault.reported_ms - *fault.cost_ms) / *fault.cost_ms);
      }
    }
  }

 private:
  int64_t& why_wrong(const DrawResult& result) {
    if (!result.problem.empty()) {
      return failed_traced;
    }
    if (result.score.false_causes.empty()) {
      return live_only;
    }
    return result.score.blames_innocent ? innocent_blamed : other_cause;
  }
};

/// Upper bounds of what a fault cost, as a share of the job's time.
constexpr std::array kCostShares{0.02, 0.05, 0.1, 0.2, 1e9};

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
    if (!result.problem.empty()) {
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
    case DrawKind::kUncatalogued:
      return "unknown, or no finding";
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
      "| kind | draws | right | abstained | wrong | costless | job failed | right | wrong | wanted |\n"
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
                           counts.of(DrawVerdict::kJobFailed), per_cent(counts.share_of(DrawVerdict::kRight)),
                           per_cent(counts.share_of(DrawVerdict::kWrong)), target_of(kind));
    }
  }
  return table;
}

/// What no rate shows.
std::string apart_table(const Counts& total) {
  const std::pair<std::string_view, int64_t> rows[] = {
      {"wrong: the run failed, and not without the tracer", total.failed_traced},
      {"wrong: a rank, node or link is blamed that is not at fault", total.innocent_blamed},
      {"wrong: another cause for what is at fault", total.other_cause},
      {"wrong: only by what an agent reported live", total.live_only},
      {"costless, named", total.costless_named},
      {"costless, not named", total.of(DrawVerdict::kCostless) - total.costless_named},
      {"findings that name a fault which another one names", total.duplicates},
      {"draws with a finding that is `waiting` and names no fault", total.draws_waiting},
  };
  std::string table = "| counted apart | number |\n| --- | --- |\n";
  for (const auto& [text, number] : rows) {
    table += fmt::format("| {} | {} |\n", text, number);
  }
  return table;
}

/// Each fault by itself, where a draw has two; empty without such draws.
std::string combined_table(const BySetting& settings) {
  std::string table;
  for (const auto& [key, counts] : settings) {
    for (const auto& [cause, named] : counts.named) {
      if (key.first == DrawKind::kCombined) {
        table += fmt::format("| {} | {} | {} of {} |\n", key.second, cause, named.first, named.second);
      }
    }
  }
  return table.empty() ? "" : "| combined setting | fault | named |\n| --- | --- | --- |\n" + table + "\n";
}

std::string settings_table(const BySetting& settings) {
  std::string table =
      "| setting | kind | draws | right | abstained | wrong | costless | job failed | named live after, in | cost "
      "error, "
      "within 20 % "
      "|\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const auto& [key, counts] : settings) {
    table += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", key.second, to_text(key.first),
                         counts.draws, counts.of(DrawVerdict::kRight), counts.of(DrawVerdict::kAbstained),
                         counts.of(DrawVerdict::kWrong), counts.of(DrawVerdict::kCostless),
                         counts.of(DrawVerdict::kJobFailed), latency_text(counts), cost_text(counts));
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

Reliability reliability_of(std::span<const DrawResult> results) {
  Reliability reliability;
  for (const DrawResult& result : results) {
    std::ranges::for_each(result.score.assertions, [&](const Assertion& one) { reliability.add(one); });
  }
  return reliability;
}

/// Empty without findings.
std::string confidence_table(const Reliability& reliability) {
  const std::optional<double> brier = reliability.brier();
  if (!brier) {
    return "";
  }
  std::string table =
      "\n| confidence | findings | mean confidence | correct |\n"
      "| --- | --- | --- | --- |\n";
  for (size_t i = 0; i < Reliability::kBins; ++i) {
    if (const ReliabilityBin& bin = reliability.bins()[i]; bin.findings > 0) {
      table += fmt::format("| {:.1f} to {:.1f} | {} | {:.2f} | {} |\n", static_cast<double>(i) / Reliability::kBins,
                           static_cast<double>(i + 1) / Reliability::kBins, bin.findings, bin.mean_confidence(),
                           per_cent(bin.share_correct()));
    }
  }
  return table + fmt::format("\nBrier score {:.3f} of {} findings with a cause.\n", *brier, reliability.findings());
}

/// Faults by what they cost, as a share of the job's time; empty where that is not known.
std::string cost_table(std::span<const DrawResult> results) {
  std::array<std::pair<int64_t, int64_t>, kCostShares.size()> rows{};  // faults named, and faults
  int64_t known = 0;
  for (const DrawResult& result : results) {
    for (const FaultScore& fault : result.score.faults) {
      if (fault.cost_share) {
        const auto bound = std::ranges::upper_bound(kCostShares.begin(), kCostShares.end() - 1, *fault.cost_share);
        auto& [named, all] = rows[static_cast<size_t>(bound - kCostShares.begin())];
        named += fault.findings > 0 ? 1 : 0;
        ++all;
        ++known;
      }
    }
  }
  std::string table = "\n| the job took longer by | faults | named |\n| --- | --- | --- |\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const double from = i == 0 ? 0 : kCostShares[i - 1];
    const std::string range = i + 1 == rows.size() ? fmt::format("{:.0f} % or more", 100 * from)
                              : i == 0             ? fmt::format("less than {:.0f} %", 100 * kCostShares[i])
                                       : fmt::format("{:.0f} to {:.0f} %", 100 * from, 100 * kCostShares[i]);
    table += fmt::format("| {} | {} | {} |\n", range, rows[i].second, rows[i].first);
  }
  return known == 0 ? "" : table;
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

/// Of all draws: a campaign is refused to another program. Empty: not known.
std::string program_of(std::span<const DrawResult> results) { return results.empty() ? "" : results.front().program; }

std::string overall_text(const Counts& total, const std::string& program) {
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
  if (!program.empty()) {
    text += fmt::format(" Program: {}.", program);
  }
  return text + "\n";
}

Json counts_json(const Counts& counts) {
  Json faults = Json::array();
  for (const auto& [cause, named] : counts.named) {
    faults.push_back({{"cause", cause}, {"named", named.first}, {"injected", named.second}});
  }
  return {{"draws", counts.draws},
          {"right", counts.of(DrawVerdict::kRight)},
          {"abstained", counts.of(DrawVerdict::kAbstained)},
          {"wrong", counts.of(DrawVerdict::kWrong)},
          {"costless", counts.of(DrawVerdict::kCostless)},
          {"job_failed", counts.of(DrawVerdict::kJobFailed)},
          {"failed_traced", counts.failed_traced},
          {"innocent_blamed", counts.innocent_blamed},
          {"other_cause", counts.other_cause},
          {"wrong_live_only", counts.live_only},
          {"costless_named", counts.costless_named},
          {"duplicates", counts.duplicates},
          {"draws_waiting", counts.draws_waiting},
          {"median_latency_ms", or_null(median_of(counts.latencies_ms))},
          {"named_live", counts.latencies_ms.size()},
          {"draws_false_live", counts.live_false},
          {"median_cost_error", or_null(median_of(counts.cost_errors))},
          {"costs_judged", counts.cost_errors.size()},
          {"costs_within_20_percent", counts.costs_within()},
          {"faults", faults}};
}

Json confidence_json(const Reliability& reliability) {
  Json bins = Json::array();
  for (size_t i = 0; i < Reliability::kBins; ++i) {
    const ReliabilityBin& bin = reliability.bins()[i];
    const bool any = bin.findings > 0;
    bins.push_back({{"from", static_cast<double>(i) / Reliability::kBins},
                    {"findings", bin.findings},
                    {"correct", bin.correct},
                    {"mean_confidence", or_null(any ? std::optional(bin.mean_confidence()) : std::nullopt)}});
  }
  return {{"brier", or_null(reliability.brier())}, {"bins", bins}};
}

}  // namespace

std::string matrix_to_markdown(std::span<const DrawResult> results) {
  const Counts total = total_of(results);
  const BySetting settings = settings_of(results);
  return overall_text(total, program_of(results)) + "\n" + kinds_table(results) + "\n" + apart_table(total) + "\n" +
         settings_table(settings) + "\n" + combined_table(settings) + confusion_table(confusion_of(results)) +
         confidence_table(reliability_of(results)) + cost_table(results);
}

std::string matrix_to_json(std::span<const DrawResult> results) {
  Json settings = Json::array();
  for (const auto& [key, counts] : settings_of(results)) {
    Json row = {{"setting", key.second}, {"kind", to_text(key.first)}};
    row.update(counts_json(counts));
    settings.push_back(std::move(row));
  }
  const Json root = {{"schema", 2},
                     {"rules", kScoringRules},
                     {"program", program_of(results)},
                     {"total", counts_json(total_of(results))},
                     {"settings", settings},
                     {"confusion", confusion_of(results)},
                     {"confidence", confidence_json(reliability_of(results))}};
  return root.dump(2) + "\n";
}

}  // namespace stalltrace::lab
