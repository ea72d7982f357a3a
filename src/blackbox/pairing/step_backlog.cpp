// SPDX-License-Identifier: Apache-2.0
#include "blackbox/pairing/step_backlog.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stalltrace::blackbox {
namespace {

constexpr size_t kMostSteps = 8192;

}  // namespace

std::vector<ProxyStep> StepBacklog::hold(uint64_t collective, ProxyStep row) {
  std::vector<ProxyStep>& waiting = steps_[collective];
  if (waiting.empty()) {
    order_.push_back(collective);
  }
  waiting.push_back(std::move(row));
  ++held_;
  std::vector<ProxyStep> given_up;
  while (held_ > kMostSteps || order_.size() > kMostSteps) {
    const uint64_t oldest = order_.front();
    order_.pop_front();
    std::ranges::move(take(oldest), std::back_inserter(given_up));
  }
  return given_up;
}

std::vector<ProxyStep> StepBacklog::take(uint64_t collective) {
  const auto found = steps_.find(collective);
  if (found == steps_.end()) {
    return {};
  }
  std::vector<ProxyStep> rows = std::move(found->second);
  held_ -= rows.size();
  steps_.erase(found);
  return rows;
}

std::vector<ProxyStep> StepBacklog::take_all() {
  std::vector<ProxyStep> rows;
  for (auto& [collective, waiting] : steps_) {
    std::ranges::move(waiting, std::back_inserter(rows));
  }
  steps_.clear();
  order_.clear();
  held_ = 0;
  return rows;
}

}  // namespace stalltrace::blackbox
