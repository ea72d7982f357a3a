// SPDX-License-Identifier: Apache-2.0
// A recorder's input, in a form that tests can compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "plugin/abi/events.h"
#include "recorder.h"

namespace lab::test {

namespace abi = stalltrace::nccl;

/// One event from its start to its end.
struct Event {
  Entry start;
  std::vector<Entry> states;
  std::vector<Entry> stops;

  [[nodiscard]] std::vector<int> state_numbers() const {
    std::vector<int> numbers;
    for (const Entry& state : states) {
      numbers.push_back(state.state);
    }
    return numbers;
  }
  /// The first time it entered the state; fails the test if it never did.
  [[nodiscard]] int64_t entered_ns(int state) const {
    const auto found = std::ranges::find(states, state, &Entry::state);
    EXPECT_NE(found, states.end()) << "never in state " << state;
    return found == states.end() ? 0 : found->time_ns;
  }
  [[nodiscard]] int64_t end_ns() const { return stops.empty() ? 0 : stops.back().time_ns; }
};

class History {
 public:
  explicit History(std::vector<Entry> entries) : entries_(std::move(entries)) {
    for (const Entry& entry : entries_) {
      if (entry.call == Call::kStart) {
        events_.push_back({.start = entry, .states = {}, .stops = {}});
      } else if (entry.call == Call::kState || entry.call == Call::kStop) {
        const auto event = std::ranges::find(events_, entry.handle, [](const Event& one) { return one.start.handle; });
        if (event == events_.end()) {
          ADD_FAILURE() << "a call about an event that was never started";
          continue;
        }
        (entry.call == Call::kState ? event->states : event->stops).push_back(entry);
      }
    }
  }

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] const std::vector<Event>& events() const { return events_; }
  [[nodiscard]] std::vector<Event> of(uint64_t type, int rank) const {
    std::vector<Event> found;
    std::ranges::copy_if(events_, std::back_inserter(found),
                         [&](const Event& event) { return event.start.type == type && event.start.rank == rank; });
    return found;
  }
  /// The one event of its kind; fails the test otherwise.
  [[nodiscard]] Event one(uint64_t type, int rank) const {
    const auto found = of(type, rank);
    EXPECT_EQ(found.size(), 1U) << "events of type " << type;
    return found.empty() ? Event{} : found.front();
  }
  [[nodiscard]] std::vector<Event> children(const Event& parent, uint64_t type) const {
    std::vector<Event> found;
    std::ranges::copy_if(events_, std::back_inserter(found), [&](const Event& event) {
      return event.start.type == type && event.start.parent == parent.start.handle;
    });
    return found;
  }
  [[nodiscard]] std::set<uint64_t> types(int rank) const {
    std::set<uint64_t> found;
    for (const Event& event : events_) {
      if (event.start.rank == rank) {
        found.insert(event.start.type);
      }
    }
    return found;
  }
  /// The calls of one thread, such as "start 256", "state 24", "stop 2": the types of the events.
  [[nodiscard]] std::vector<std::string> calls_of(pthread_t thread) const {
    std::vector<std::string> lines;
    for (const Entry& entry : entries_) {
      if (pthread_equal(entry.thread, thread) == 0 || entry.call == Call::kInit || entry.call == Call::kFinalize) {
        continue;
      }
      const auto event = std::ranges::find(events_, entry.handle, [](const Event& one) { return one.start.handle; });
      const std::string type = std::to_string(event->start.type);
      lines.push_back(entry.call == Call::kStart   ? "start " + type
                      : entry.call == Call::kState ? "state " + std::to_string(entry.state)
                                                   : "stop " + type);
    }
    return lines;
  }
  [[nodiscard]] long calls(Call call) const { return std::ranges::count(entries_, call, &Entry::call); }

 private:
  std::vector<Entry> entries_;
  std::vector<Event> events_;
};

}  // namespace lab::test
