// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "lab/cluster/campaign/settings.h"

namespace stalltrace::lab {
namespace {

constexpr uint64_t kCounterStep = kSplitmixSeed;  // 2^64 divided by the golden ratio
constexpr int kRanks = 4;

struct Trial {
  const DrawSetting* setting = nullptr;
  const std::string* workload = nullptr;
};

std::vector<Trial> one_round(std::span<const std::string> workloads, std::string_view only) {
  std::vector<Trial> trials;
  for (const std::string& workload : workloads) {
    for (const DrawSetting& setting : draw_settings()) {
      const auto on = split(setting.on, ' ');
      const bool fits = setting.on.empty() || std::ranges::find(on, workload) != on.end();
      for (int i = 0; fits && setting.name.contains(only) && i < setting.weight; ++i) {
        trials.push_back({&setting, &workload});
      }
    }
  }
  return trials;
}

/// Fisher and Yates' shuffle.
void shuffle(std::vector<Trial>& trials, DrawStream stream) {
  for (size_t i = trials.size(); i > 1; --i) {
    std::swap(trials[i - 1], trials[stream.below(i)]);
  }
}

using Values = std::map<std::string, std::string, std::less<>>;

/// Draws ranks, start (1 to 2 s) and duration (2.5 to 3.5 s).
Values draw_values(DrawStream& stream) {
  const auto a = static_cast<int>(stream.below(kRanks));
  const auto b = static_cast<int>((a + 1 + stream.below(kRanks - 1)) % kRanks);
  const auto other = static_cast<int>(1 + stream.below(kRanks - 1));
  return {{"a", std::to_string(a)},
          {"b", std::to_string(b)},
          {"before", std::to_string((a + kRanks - 1) % kRanks)},
          {"other", std::to_string(other)},
          {"node", std::to_string(a % 2)},
          {"start", fmt::format("{}ms", 1000 + 100 * stream.below(11))},
          {"duration", fmt::format("{}ms", 2500 + 100 * stream.below(11))}};
}

std::string filled(std::string_view text, const Values& values) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('{', at);
    result += text.substr(at, open - at);
    if (open == std::string_view::npos) {
      break;
    }
    const size_t close = text.find('}', open);
    result += values.find(text.substr(open + 1, close - open - 1))->second;
    at = close + 1;
  }
  return result;
}

void append_words(std::string_view text, std::vector<std::string>& into) {
  for (const std::string_view word : split(text, ' ')) {
    if (!word.empty()) {
      into.emplace_back(word);
    }
  }
}

std::vector<std::string> arguments_of(const DrawSetting& setting, const std::string& workload, const Values& values,
                                      uint64_t seed) {
  std::vector<std::string> arguments = {"--ranks", std::to_string(kRanks), "--workload", workload,
                                        "--seed",  std::to_string(seed)};
  const MatrixJob job = matrix_job(workload);
  arguments.insert(arguments.end(), {"--steps", std::to_string(job.steps * setting.longer / setting.slower)});
  append_words(setting.hangs ? job.hang_args : kTimeout, arguments);
  append_words(setting.run_args, arguments);
  for (const std::string_view fault : split(setting.faults, ' ')) {
    if (!fault.empty()) {
      arguments.insert(arguments.end(), {"--fault", filled(fault, values)});
    }
  }
  arguments.emplace_back("--");
  append_words(job.workload_args, arguments);
  append_words(filled(setting.workload_args, values), arguments);
  return arguments;
}

}  // namespace

std::string_view to_text(DrawKind kind) {
  static constexpr std::array<std::string_view, 6> kTexts = {"healthy", "not a fault", "loud",
                                                             "quiet",   "combined",    "outside the catalogue"};
  return kTexts[static_cast<size_t>(kind)];
}

uint64_t DrawStream::next() { return splitmix64_mix(state_ += kCounterStep); }

Result<Draw> draw(uint64_t seed, int64_t number, std::span<const std::string> workloads, std::string_view only) {
  std::vector<Trial> trials = one_round(workloads, only);
  if (trials.empty()) {
    return fail(fmt::format("no setting is named '{}'", only), "`stalltrace lab matrix --help` lists them",
                ErrorKind::kUsage);
  }
  const auto size = static_cast<int64_t>(trials.size());
  const auto round = static_cast<uint64_t>(number / size);
  shuffle(trials, DrawStream(splitmix64_fold(seed, 2 * round)));
  const Trial& trial = trials[static_cast<size_t>(number % size)];
  DrawStream stream(splitmix64_fold(seed, 2 * static_cast<uint64_t>(number) + 1));
  return Draw{number, std::string(trial.setting->name), trial.setting->kind, *trial.workload,
              arguments_of(*trial.setting, *trial.workload, draw_values(stream), seed)};
}

}  // namespace stalltrace::lab
