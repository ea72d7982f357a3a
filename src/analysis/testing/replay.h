// SPDX-License-Identifier: Apache-2.0
// Replays a recorded source as a running trace: its events come in order, each call at its entry and again at its end,
// and the live analysis runs every second.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "analysis/live/live_findings.h"
#include "base/clock.h"
#include "model/memory_source.h"

namespace stalltrace::analysis {

class Replay {
 public:
  explicit Replay(MemorySource& source) {
    const Result<std::vector<Node>> nodes = source.nodes();
    for (Node node : *nodes) {
      ended_ns_ = std::max(ended_ns_, node.ended_ns.value_or(0));
      node.ended_ns.reset();
      start_.emplace_back(node);
    }
    for_each_type(kStateTypes, [&]<typename T>() {
      if constexpr (!std::is_same_v<T, Node> && !std::is_same_v<T, Process>) {
        const Result<std::vector<T>> rows = source.all<T>();
        for (const T& row : *rows) {
          start_.emplace_back(row);
        }
      }
    });
    const Result<std::vector<Process>> processes = source.processes();
    for (const Process& process : *processes) {
      Process alive = process;
      alive.exit_ns.reset();
      start_.emplace_back(alive);
      if (process.exit_ns) {
        add(*process.exit_ns, process);
      }
    }
    for_each_type(kStreamedTypes, [&]<typename T>() {
      EXPECT_TRUE(source.stream<T>({}, [&](const T& row) { add(row); }).has_value());
    });
    std::stable_sort(events_.begin(), events_.end(), [](const At& a, const At& b) { return a.time_ns < b.time_ns; });
  }

  [[nodiscard]] int64_t from_ns() const { return events_.front().time_ns; }
  [[nodiscard]] int64_t to_ns() const { return std::max(events_.back().time_ns, ended_ns_); }

  /// All changes until `until_ns`, which may be later than the last event.
  std::vector<LiveChange> play(LiveAnalysis& live, int64_t until_ns) const {
    std::vector<LiveChange> all;
    for (const Event& event : start_) {
      live.accept(event);
    }
    auto next = events_.begin();
    for (int64_t now_ns = from_ns(); now_ns <= until_ns; now_ns += kNsPerSecond) {
      for (; next != events_.end() && next->time_ns <= now_ns; ++next) {
        live.accept(next->event);
      }
      const Result<std::vector<LiveChange>> changes = live.run_round(now_ns);
      EXPECT_TRUE(changes.has_value());
      all.insert(all.end(), changes->begin(), changes->end());
    }
    return all;
  }

 private:
  struct At {
    int64_t time_ns = 0;
    Event event;
  };

  void add(int64_t time_ns, Event event) { events_.push_back({time_ns, std::move(event)}); }
  template <StreamedType T>
  void add(const T& row) {
    add(EventTraits<T>::known_until_ns(row), row);
  }
  void add(const Collective& row) {
    Collective open = row;
    open.duration_ns.reset();
    open.completion = Completion::kOpen;
    add(row.timestamp_ns, open);
    if (row.known_end_ns()) {
      add(*row.known_end_ns(), row);
    }
  }

  std::vector<Event> start_;
  std::vector<At> events_;
  int64_t ended_ns_ = 0;
};

}  // namespace stalltrace::analysis
