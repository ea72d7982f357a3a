// SPDX-License-Identifier: Apache-2.0
#include "stacks/rank_stacks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/text.h"
#include "stacks/output/describe.h"

namespace stalltrace::stacks {

std::optional<CallSite> call_site_of(const ThreadStack& thread) {
  if (!thread.python || thread.python->frames.empty()) {
    return std::nullopt;
  }
  const PythonLocation location = location_in(thread.python->frames);
  const std::string_view file = base_name(location.own->file);
  const std::string line = location.own->line ? fmt::format(":{}", *location.own->line) : "";
  return CallSite{.function = printable(short_function(*location.called)), .line = printable(file) + line};
}

std::string to_text(const CallSite& site) { return fmt::format("in {} at {}", site.function, site.line); }

std::string location_of(const ThreadStack& thread) {
  const std::optional<CallSite> site = call_site_of(thread);
  if (site) {
    return to_text(*site);
  }
  const std::optional<NativeCall> native = native_call_of(thread);
  return !native              ? describe_wait(thread)
         : native->only_waits ? fmt::format("{}, {}", describe_wait_briefly(thread), to_text(*native))
                              : "in " + to_text(*native);
}

std::vector<FoldedJob> fold_jobs(std::span<const RankStacks> ranks) {
  std::map<std::string, std::map<std::string, FoldedRanks>> jobs;
  std::map<std::string, size_t> sizes;
  for (const RankStacks& one : ranks) {
    if (!one.rank) {
      continue;
    }
    const ThreadStack* thread = one.stacks ? main_thread(*one.stacks) : nullptr;
    const std::string location = thread != nullptr ? location_of(*thread) : "not readable";
    FoldedRanks& folded = jobs[one.job][location];
    folded.location = location;
    folded.ranks.push_back(*one.rank);
    ++sizes[one.job];
  }
  std::vector<FoldedJob> result;
  for (auto& [job, locations] : jobs) {
    if (sizes[job] < 2) {
      continue;
    }
    FoldedJob& folded = result.emplace_back(FoldedJob{.job = job, .locations = {}});
    for (auto& [location, ranks_there] : locations) {
      std::ranges::sort(ranks_there.ranks);
      folded.locations.push_back(std::move(ranks_there));
    }
    std::ranges::stable_sort(folded.locations, [](const FoldedRanks& a, const FoldedRanks& b) {
      return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : a.ranks < b.ranks;
    });
  }
  return result;
}

std::string folded_line(std::span<const FoldedRanks> folded) {
  constexpr size_t kListed = 3;  // further ones are only counted
  std::vector<std::string> parts;
  for (const FoldedRanks& one : folded) {
    const std::string who = one.ranks.size() == 1         ? fmt::format("rank {}", one.ranks[0])
                            : one.ranks.size() <= kListed ? fmt::format("ranks {}", fmt::join(one.ranks, ", "))
                                                          : fmt::format("{} ranks", one.ranks.size());
    parts.push_back(who + " " + one.location);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace stalltrace::stacks
