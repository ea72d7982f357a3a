// SPDX-License-Identifier: Apache-2.0
#include "stacks/rank_stacks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "base/text.h"
#include "stacks/output/describe.h"

namespace stalltrace::stacks {
namespace {

/// Installed code: packages, the standard library, and what is frozen into the interpreter.
bool is_installed(std::string_view file) {
  constexpr std::array<std::string_view, 3> kFolders{"/site-packages/", "/dist-packages/", "/lib/python3"};
  return file.starts_with("<frozen ") || std::ranges::any_of(kFolders, [&](std::string_view folder) {
           return file.find(folder) != std::string_view::npos;
         });
}

/// "main.<locals>.step" → "step"
std::string_view short_name(std::string_view function) {
  constexpr std::string_view kLocal = "<locals>.";
  const size_t at = function.rfind(kLocal);
  return at == std::string_view::npos ? function : function.substr(at + kLocal.size());
}

/// Functions that only call what was asked for: decorators, and torch's way into a module.
bool only_forwards(std::string_view function) {
  constexpr std::array<std::string_view, 5> kNames{"wrapper", "inner", "decorate_context", "_call_impl",
                                                   "_wrapped_call_impl"};
  const std::string_view last = function.substr(function.rfind('.') + 1);
  return std::ranges::find(kNames, last) != kNames.end();
}

}  // namespace

std::string place_of(const ThreadStack& thread) {
  const auto& frames = thread.python ? thread.python->frames : std::vector<PythonFrame>();
  if (frames.empty()) {
    return describe_wait(thread);
  }
  const auto own = std::ranges::find_if(frames, [](const PythonFrame& frame) { return !is_installed(frame.file); });
  const auto at = own == frames.end() ? frames.begin() : own;
  auto called = at;
  while (called != frames.begin() && (called == at || only_forwards(called->function))) {
    --called;
  }
  const std::string_view file = std::string_view(at->file).substr(at->file.rfind('/') + 1);
  const std::string line = at->line ? fmt::format(":{}", *at->line) : "";
  return fmt::format("in {} at {}{}", printable(short_name(called->function)), printable(file), line);
}

std::vector<FoldedJob> fold_jobs(std::span<const RankStacks> ranks) {
  std::map<std::string, std::map<std::string, FoldedRanks>> jobs;
  std::map<std::string, size_t> sizes;
  for (const RankStacks& one : ranks) {
    if (!one.rank) {
      continue;
    }
    const ThreadStack* thread = one.stacks ? main_thread(*one.stacks) : nullptr;
    const std::string place = thread != nullptr ? place_of(*thread) : "not readable";
    FoldedRanks& folded = jobs[one.job][place];
    folded.place = place;
    folded.ranks.push_back(*one.rank);
    ++sizes[one.job];
  }
  std::vector<FoldedJob> result;
  for (auto& [job, places] : jobs) {
    if (sizes[job] < 2) {
      continue;
    }
    FoldedJob& folded = result.emplace_back(FoldedJob{.job = job, .places = {}});
    for (auto& [place, at_place] : places) {
      std::ranges::sort(at_place.ranks);
      folded.places.push_back(std::move(at_place));
    }
    std::ranges::stable_sort(folded.places, [](const FoldedRanks& a, const FoldedRanks& b) {
      return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : a.ranks < b.ranks;
    });
  }
  return result;
}

std::string folded_line(std::span<const FoldedRanks> folded) {
  constexpr size_t kListed = 3;  // more are counted
  std::vector<std::string> parts;
  for (const FoldedRanks& one : folded) {
    const std::string who = one.ranks.size() == 1         ? fmt::format("rank {}", one.ranks[0])
                            : one.ranks.size() <= kListed ? fmt::format("ranks {}", fmt::join(one.ranks, ", "))
                                                          : fmt::format("{} ranks", one.ranks.size());
    parts.push_back(who + " " + one.place);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace stalltrace::stacks
