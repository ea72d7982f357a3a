// SPDX-License-Identifier: Apache-2.0
// Where processes of Python were when something was wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/events/event_traits.h"
#include "model/events/ids.h"

namespace stalltrace {

/// One look at the main thread of a rank's process, or of a process that descends from it (a data loader's worker). It
/// was there, and waited for that, from `timestamp_ns` on for `duration_ns`: the time that the reading took.
struct PythonStack {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  int64_t duration_ns = 0;
  int32_t pid = 0;
  int32_t rank_pid = 0;  // the process that is the rank: `pid` itself, or the one it descends from
  int32_t tid = 0;
  std::string state;        // one letter, as in proc(5); empty: not read
  std::string activity;     // "reading FIFO /data/in", "waiting for the GIL"; empty: not read
  bool collecting = false;  // it collects garbage
  int64_t stack_id = 0;     // of the row of `stack` with its frames (base/python_frames.h); 0: none were read
  std::string problem;      // why frames are missing; empty: none are
};

template <>
struct EventTraits<PythonStack> : StreamTraits<PythonStack, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "python_stack";
};

inline constexpr TypeList<PythonStack> kPythonTypes;

}  // namespace stalltrace
