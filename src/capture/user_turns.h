// SPDX-License-Identifier: Apache-2.0
// Work that any user's processes can cause, in a queue for each user. It is done in slices, between which the caller
// reads the rings: users take turns, and each has its share of the time. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "capture/look_budget.h"

namespace stalltrace::capture {

template <typename Item>
class UserTurns {
 public:
  enum class Whose { kWhoHaveTime, kAll };

  /// `most_of_user`: items that wait, by add(). `at_once_ns`: what a user may take before its share of the time counts.
  UserTurns(size_t most_of_user, int64_t at_once_ns) : most_of_user_(most_of_user), budget_(at_once_ns) {}

  /// False where as many items of this user wait as may.
  bool add(uint32_t user, Item item) {
    if (const auto queue = queues_.find(user); queue != queues_.end() && queue->second.size() >= most_of_user_) {
      return false;
    }
    add_always(user, std::move(item));
    return true;
  }
  /// Of items that something else bounds.
  void add_always(uint32_t user, Item item) { queues_[user].push_back(std::move(item)); }

  [[nodiscard]] bool has(uint32_t user) const { return queues_.contains(user); }
  [[nodiscard]] bool empty() const { return queues_.empty(); }
  /// Whether work() would do anything.
  [[nodiscard]] bool is_due(int64_t now_ns) const {
    for (const auto& [user, queue] : queues_) {
      if (budget_.is_due(user, now_ns)) {
        return true;
      }
    }
    return false;
  }
  /// Whether this user has time left for work that does not wait here; charge() counts it.
  [[nodiscard]] bool has_time(uint32_t user, int64_t now_ns) const { return budget_.is_due(user, now_ns); }
  void charge(uint32_t user, int64_t began_ns, int64_t ended_ns) { budget_.looked(user, began_ns, ended_ns); }

  /// Does items until `end_ns`, at least one if any is due. `now` gives the time; `work(user, item)` returns whether
  /// the item is done: what is not comes first at its user's next turn.
  template <typename Now, typename Work>
  void work(int64_t end_ns, const Now& now, const Work& work, Whose whose = Whose::kWhoHaveTime) {
    for (int64_t began_ns = now(); select(began_ns, whose);) {
      const uint32_t user = last_;
      Item item = std::move(queues_[user].front());
      queues_[user].pop_front();
      const bool done = work(user, item);
      if (!done) {
        queues_[user].push_front(std::move(item));
      } else if (const auto queue = queues_.find(user); queue->second.empty()) {
        queues_.erase(queue);
      }
      const int64_t ended_ns = now();
      budget_.looked(user, began_ns, ended_ns);
      began_ns = ended_ns;
      if (ended_ns >= end_ns) {
        return;
      }
    }
  }

 private:
  /// Makes the next user in turn the last one; false where none is due.
  bool select(int64_t now_ns, Whose whose) {
    auto queue = queues_.upper_bound(last_);
    for (size_t looked = 0; looked < queues_.size(); ++looked, ++queue) {
      queue = queue == queues_.end() ? queues_.begin() : queue;
      if (whose == Whose::kAll || budget_.is_due(queue->first, now_ns)) {
        last_ = queue->first;
        return true;
      }
    }
    return false;
  }

  size_t most_of_user_;
  LookBudget budget_;
  std::map<uint32_t, std::deque<Item>> queues_;  // none is empty, but during work()
  uint32_t last_ = 0;
};

}  // namespace stalltrace::capture
