// SPDX-License-Identifier: Apache-2.0
// Stacks of ranks while something is wrong → rows of `python_stack` and `stack`. One thread: the tracer's, which
// never waits for a reading.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "capture/python/late_watch.h"
#include "capture/python/stack_reader.h"
#include "model/events.h"

namespace stalltrace::capture {

class PythonStacks {
 public:
  /// Who is accountable for a process (capture/discover/sharing_user).
  using UserOf = std::function<uint32_t(pid_t)>;

  /// Both references must outlive the object.
  PythonStacks(const Node& node, EventSink& sink, UserOf user_of, StackReader::Read read = read_rank)
      : node_(node), sink_(sink), user_of_(std::move(user_of)), reader_(std::move(read)) {}

  /// Starts a reading if one is due, and delivers finished readings. Call it often; `now_ns` is CLOCK_MONOTONIC.
  void update(const std::function<std::vector<CallStanding>()>& standings, int64_t now_ns);
  /// A finding was reported: read the processes without progress.
  void ask() { watches_.ask(); }
  /// Call update() again within LateWatch::kHurriedNs: a rank may be about to be late.
  [[nodiscard]] bool hurries() const { return watches_.hurries() && !reader_.busy(); }
  /// For poll: readable when there is something to deliver; -1 while no reading is under way.
  [[nodiscard]] int descriptor() const { return reader_.descriptor(); }

 private:
  void deliver(const ReadStack& read);

  const Node& node_;
  EventSink& sink_;
  UserOf user_of_;
  LateWatches watches_;
  StackReader reader_;
  std::map<pid_t, int64_t> others_;  // of which nothing can be read, until then
  std::set<int64_t> delivered_;
  int64_t sampled_ns_ = 0;
};

}  // namespace stalltrace::capture
