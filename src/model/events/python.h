// SPDX-License-Identifier: Apache-2.0
// Where ranks were while something was wrong, and what Python processes raised.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/events/event_traits.h"
#include "model/events/ids.h"

namespace stalltrace {

/// One sample of a thread of a rank's process, or of a descendant (a data loader's worker). The thread was there, in
/// this wait, from `timestamp_ns` for `duration_ns`: the time that the reading took.
struct PythonStack {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  int64_t duration_ns = 0;
  int32_t pid = 0;
  int32_t rank_pid = 0;  // the rank's process: `pid` itself, or its ancestor
  int32_t tid = 0;
  std::string state;        // one letter, as in proc(5); empty: not read
  std::string activity;     // "reading FIFO /data/in", "waiting for the GIL"; empty: not read
  bool collecting = false;  // garbage collection is running
  int64_t stack_id = 0;     // id of the row of `stack` with its frames (base/python_frames.h); 0: none were read
  std::string problem;      // why frames are missing; empty: none are missing
};

template <>
struct EventTraits<PythonStack> : StreamTraits<PythonStack, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "python_stack";
};

/// An exception that no code of a Python thread caught, when the interpreter began to print it; also SystemExit. The
/// message is not kept: it may hold data and secrets.
struct PythonException {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  int32_t pid = 0;
  int32_t tid = 0;   // equal to `pid`: the main thread, whose exceptions end the process
  std::string type;  // "ValueError"
  int64_t stack_id =
      0;              // id of the row of `stack` with its traceback, innermost first; 0: it had none, or none was read
  int64_t depth = 0;  // frames of the traceback; of a deep one the innermost and outermost are kept
};

template <>
struct EventTraits<PythonException> : StreamTraits<PythonException, TableKind::kNumbered> {
  static constexpr std::string_view kTable = "python_exception";
};

inline constexpr TypeList<PythonStack, PythonException> kPythonTypes;

}  // namespace stalltrace
