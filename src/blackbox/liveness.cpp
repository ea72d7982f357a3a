// SPDX-License-Identifier: Apache-2.0
#include "blackbox/liveness.h"

#include <algorithm>

namespace stalltrace::blackbox {

void Liveness::NewestTwo::add(size_t process, int64_t time_ns) {
  const std::pair added{time_ns, process};
  if (newest_[0] && newest_[0]->second == process) {
    newest_[0] = std::max(*newest_[0], added);
  } else if (!newest_[0] || added > *newest_[0]) {
    newest_[1] = newest_[0];
    newest_[0] = added;
  } else if (!newest_[1] || added > *newest_[1]) {
    newest_[1] = added;
  }
}

std::optional<int64_t> Liveness::NewestTwo::of_others(size_t process) const {
  for (const auto& newest : newest_) {
    if (newest && newest->second != process) {
      return newest->first;
    }
  }
  return std::nullopt;
}

void ProcessActivity::move_by(int64_t offset_ns) {
  last_active_ns += offset_ns;
  for (auto& [hash, ended_ns] : ended) {
    ended_ns += offset_ns;
  }
}

size_t Liveness::add(ProcessActivity process) {
  const size_t number = processes_.size();
  any_alive_ = any_alive_ || process.alive;
  last_active_.add(number, process.last_active_ns);
  for (const auto& [hash, ended_ns] : process.ended) {
    ended_[hash].add(number, ended_ns);
  }
  processes_.push_back(std::move(process));
  return number;
}

std::optional<int64_t> Liveness::death_ns(size_t number) const {
  const ProcessActivity& process = processes_[number];
  if (process.alive || !process.has_open_communicator) {
    return std::nullopt;
  }
  const auto others_ns = last_active_.of_others(number);
  const bool ended_without_it = std::ranges::any_of(process.open, [&](uint64_t hash) {
    const auto ends = ended_.find(hash);
    return ends != ended_.end() &&
           ends->second.of_others(number).value_or(process.last_active_ns) > process.last_active_ns;
  });
  const bool outlived =
      any_alive_ || (others_ns && *others_ns - process.last_active_ns > kOutlivedNs) || ended_without_it;
  return outlived ? std::optional(process.last_active_ns) : std::nullopt;
}

}  // namespace stalltrace::blackbox
