// SPDX-License-Identifier: Apache-2.0
// One thread's states, as a tracer writes them: long waits one by one, the others summed over windows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/events.h"

namespace stalltrace::simulation {

class ThreadStates {
 public:
  ThreadStates(NodeId node, int32_t pid, int32_t tid, std::string name)
      : node_(node), pid_(pid), tid_(tid), name_(std::move(name)) {}
  /// A state that continues the newest one extends it.
  void add(WaitKind kind, int64_t from_ns, int64_t to_ns, int32_t by_pid = 0, const std::string& by_name = {});
  /// From here on to the end of the recording.
  void add_open(WaitKind kind, int64_t from_ns);
  /// What the thread did at that time; none: not known.
  [[nodiscard]] std::optional<WaitKind> at(int64_t time_ns) const;
  /// Rows of this time, every time shifted. With `to_ns` kForever an open state has no length yet.
  void write(std::vector<WaitSpan>& out, int64_t shift_ns, int64_t from_ns, int64_t to_ns) const;

 private:
  struct State {
    WaitKind kind;
    int64_t from_ns;
    int64_t to_ns;
    int32_t by_pid;
    std::string by_name;
    bool open;
  };
  NodeId node_;
  int32_t pid_;
  int32_t tid_;
  std::string name_;
  std::vector<State> states_;
};

}  // namespace stalltrace::simulation
