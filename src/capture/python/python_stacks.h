// SPDX-License-Identifier: Apache-2.0
// The stacks of Python ranks while something is wrong → rows of `python_stack` and `stack`. One thread: the tracer's,
// which never waits for any of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "capture/python/late_watch.h"
#include "capture/python/stack_reader.h"
#include "model/events.h"

namespace stalltrace::capture {

class PythonStacks {
 public:
  /// Both outlive it.
  PythonStacks(const Node& node, EventSink& sink, StackReader::Read read = read_rank)
      : node_(node), sink_(sink), reader_(std::move(read)) {}

  /// Starts a reading where one is due, and delivers what has been read. Often; `now_ns` is CLOCK_MONOTONIC.
  void look(const std::function<std::vector<CallStanding>()>& standings, int64_t now_ns);
  /// A finding was reported: whoever stands still is to be looked at.
  void ask() { watch_.ask(); }
  /// For poll: there is something to deliver; -1 mostly.
  [[nodiscard]] int descriptor() const { return reader_.descriptor(); }

 private:
  void deliver(const ReadStack& read);

  const Node& node_;
  EventSink& sink_;
  LateWatch watch_;
  StackReader reader_;
  std::set<pid_t> others_;  // not Python
  std::set<int64_t> delivered_;
  int64_t looked_ns_ = 0;
};

}  // namespace stalltrace::capture
