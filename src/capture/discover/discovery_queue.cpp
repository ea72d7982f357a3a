// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/discovery_queue.h"

#include <utility>

#include "model/events/loss_sources.h"

namespace stalltrace::capture {
namespace {

/// Users whose numbers are in losses; beyond, they are one.
constexpr size_t kMostUsersInLosses = 1024;

}  // namespace

void DiscoveryQueue::add_mapping(pid_t pid, uint32_t user, MappedFile mapping) {
  if (const auto found = users_.find(user);
      found == users_.end() || found->second.mappings.size() < most_mappings_of_user_) {
    add_read_mapping(pid, user, std::move(mapping));
    return;
  }
  ++lost_[lost_.contains(user) || lost_.size() < kMostUsersInLosses ? user : kOtherUsers];
  add_process(pid, user, false);
}

void DiscoveryQueue::add_read_mapping(pid_t pid, uint32_t user, MappedFile mapping) {
  users_[user].mappings.push_back({.pid = pid, .file = std::move(mapping)});
}

void DiscoveryQueue::add_process(pid_t pid, uint32_t user, bool also_heir) {
  const auto [entry, fresh] = processes_.try_emplace(pid, WaitingProcess{.user = user});
  WaitingProcess& waiting = entry->second;
  waiting.also_heir = waiting.also_heir || also_heir;
  const uint32_t before = std::exchange(waiting.user, user);
  if (fresh || before != user) {
    users_[user].processes.push_back(pid);
  }
  if (before != user) {
    const auto of = users_.find(before);
    std::erase(of->second.processes, pid);
    if (of->second.is_empty()) {
      users_.erase(of);
    }
  }
}

DiscoveryQueue::Users::iterator DiscoveryQueue::next_user(int64_t now_ns, bool within_budget) {
  const auto may = [&](uint32_t user) { return !within_budget || budget_.is_due(user, now_ns); };
  if (const auto current = users_.find(user_); current != users_.end() && now_ns < turn_ends_ns_ && may(user_)) {
    return current;
  }
  auto next = users_.upper_bound(user_);
  for (size_t asked = 0; asked < users_.size(); ++asked, ++next) {
    next = next == users_.end() ? users_.begin() : next;
    if (may(next->first)) {
      return next;
    }
  }
  return users_.end();
}

std::optional<DiscoveryQueue::Item> DiscoveryQueue::take(int64_t now_ns, Whose whose) {
  auto next = next_user(now_ns, true);
  if (next == users_.end() && whose == Whose::kAll) {
    next = next_user(now_ns, false);
  }
  if (next == users_.end()) {
    return std::nullopt;
  }
  if (next->first != user_ || now_ns >= turn_ends_ns_) {
    user_ = next->first;
    turn_ends_ns_ = now_ns + kTurnNs;
  }
  Item item{.user = next->first};
  Waiting& waiting = next->second;
  const bool mapping = waiting.processes.empty() || (!waiting.mappings.empty() && waiting.in_a_row < kMappingsInARow);
  if (mapping) {
    item.pid = waiting.mappings.front().pid;
    item.mapping = std::move(waiting.mappings.front().file);
    waiting.mappings.pop_front();
    ++waiting.in_a_row;
  } else {
    item.pid = waiting.processes.front();
    waiting.processes.pop_front();
    item.also_heir = processes_.extract(item.pid).mapped().also_heir;
    waiting.in_a_row = 0;
  }
  if (waiting.is_empty()) {
    users_.erase(next);
  }
  return item;
}

void DiscoveryQueue::keep_only(const std::function<bool(pid_t)>& is_alive) {
  std::erase_if(processes_, [&](const auto& entry) { return !is_alive(entry.first); });
  for (auto& [user, waiting] : users_) {
    std::erase_if(waiting.processes, [&](pid_t pid) { return !processes_.contains(pid); });
  }
  std::erase_if(users_, [](const auto& entry) { return entry.second.is_empty(); });
}

}  // namespace stalltrace::capture
