// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/judge/links_at_fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/text.h"

namespace stalltrace::preflight {
namespace {

constexpr size_t kMostChecks = 24;  // of one kind and outcome
constexpr int64_t kFewLinks = 2;    // fewer are named one by one

int severity(Outcome outcome) {
  return outcome == Outcome::kFailed ? 3 : outcome == Outcome::kWarning ? 2 : outcome == Outcome::kUnknown ? 1 : 0;
}

int64_t count_in(const std::map<int32_t, int64_t>& counts, int32_t node) {
  const auto found = counts.find(node);
  return found == counts.end() ? 0 : found->second;
}

}  // namespace

LinksAtFault::LinksAtFault(const LaunchResults& results) : results_(results) {
  for (const PairResult& pair : results.pairs) {
    ++tested_from_[pair.from];
    ++tested_to_[pair.to];
  }
}

void LinksAtFault::add(const PairResult& pair, Outcome outcome, std::string detail, std::string remedy) {
  const Pair link(pair.from, pair.to);
  Outcome& worst = worst_.emplace(link, outcome).first->second;
  worst = severity(outcome) > severity(worst) ? outcome : worst;
  faults_.push_back({link, outcome, std::move(detail), std::move(remedy)});
}

std::vector<HostCheck> LinksAtFault::fold(std::string_view check, std::vector<Fault> faults,
                                          bool receivers_first) const {
  std::vector<HostCheck> made;
  const auto emit = [&](std::string subject, const Fault& example, std::string detail) {
    made.push_back({std::string(check), std::move(subject), example.outcome, std::move(detail), example.remedy});
  };
  std::map<int32_t, int64_t> from;
  std::map<int32_t, int64_t> to;
  for (const Fault& fault : faults) {
    ++from[fault.pair.first];
    ++to[fault.pair.second];
  }
  while (!faults.empty() && made.size() < kMostChecks - 1) {
    // The node, and the direction, that covers most.
    struct Cover {
      int64_t links = 0;
      std::string subject;
      std::function<bool(const Pair&)> covers;
    } best;
    const auto consider = [&](int64_t left, int64_t links, int64_t tested, std::string_view direction, int32_t node,
                              const std::function<bool(const Pair&)>& covers) {
      if (links == tested && left >= kFewLinks && left > best.links) {
        best = {left, fmt::format("all {} {} {}", count_of(links, "link"), direction, name(node)), covers};
      }
    };
    std::map<int32_t, int64_t> left_from;
    std::map<int32_t, int64_t> left_to;
    for (const Fault& fault : faults) {
      ++left_from[fault.pair.first];
      ++left_to[fault.pair.second];
    }
    const auto consider_receivers = [&] {
      for (const auto& [node, left] : left_to) {
        consider(left, to[node], count_in(tested_to_, node), "to", node,
                 [node = node](const Pair& pair) { return pair.second == node; });
      }
    };
    if (receivers_first) {
      consider_receivers();
    }
    for (const auto& [node, left] : left_from) {
      consider(left, from[node], count_in(tested_from_, node), "from", node,
               [node = node](const Pair& pair) { return pair.first == node; });
      if (count_in(left_to, node) > 1 && left > 1) {
        consider(left + left_to[node], from[node] + to[node], count_in(tested_from_, node) + count_in(tested_to_, node),
                 "of", node, [node = node](const Pair& pair) { return pair.first == node || pair.second == node; });
      }
    }
    consider_receivers();
    if (best.links == 0) {
      break;
    }
    const auto example = *std::ranges::find_if(faults, [&](const Fault& fault) { return best.covers(fault.pair); });
    emit(best.subject, example,
         fmt::format("({} -> {}) {}", name(example.pair.first), name(example.pair.second), example.detail));
    std::erase_if(faults, [&](const Fault& fault) { return best.covers(fault.pair); });
  }
  for (size_t i = 0; i < faults.size(); ++i) {
    if (made.size() >= kMostChecks - 1 && i + 1 < faults.size()) {
      emit("", faults[i],
           fmt::format("{} more; --json has them", count_of(static_cast<int64_t>(faults.size() - i), "link")));
      break;
    }
    emit(fmt::format("{} -> {}", name(faults[i].pair.first), name(faults[i].pair.second)), faults[i], faults[i].detail);
  }
  return made;
}

std::vector<HostCheck> LinksAtFault::take(std::string_view check) {
  std::vector<HostCheck> made;
  for (const Outcome outcome : {Outcome::kFailed, Outcome::kWarning, Outcome::kUnknown}) {
    std::vector<Fault> faults;
    std::ranges::copy_if(faults_, std::back_inserter(faults), [&](const Fault& one) { return one.outcome == outcome; });
    // Of nodes that cover as many links each, the first one is taken: the other order may need fewer checks.
    std::vector<HostCheck> folded = fold(check, faults, false);
    std::vector<HostCheck> other = fold(check, std::move(faults), true);
    std::ranges::move(other.size() < folded.size() ? other : folded, std::back_inserter(made));
  }
  faults_.clear();
  return made;
}

}  // namespace stalltrace::preflight
