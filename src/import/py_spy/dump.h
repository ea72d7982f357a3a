// SPDX-License-Identifier: Apache-2.0
// What `py-spy dump` prints, as text or as JSON (src/dump.rs and src/stack_trace.rs of py-spy 0.3 and 0.4). Command
// lines and local variables are not read: they may hold secrets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/python_frames.h"
#include "base/result.h"

namespace stalltrace::import {

struct DumpedThread {
  int32_t pid = 0;
  int32_t tid = 0;     // 0: only Python's own number is known
  std::string status;  // "idle", "active", "active+gil"
  bool main = false;
  std::vector<PythonFrame> frames;  // innermost first
};

using TakeThread = std::function<void(const DumpedThread&)>;

/// The lines of a dump, also of several processes at once behind a launcher's labels ("0: ", "[1,0]<stdout>:").
class PySpyLines {
 public:
  explicit PySpyLines(TakeThread take) : take_(std::move(take)) {}
  void read(std::string_view line);
  /// Ends the last threads.
  void finish();
  [[nodiscard]] int64_t damaged() const {
    return damaged_;
  }  // threads of which no process is known, frames that are cut off

 private:
  struct Speaker {
    std::string label;
    int32_t pid = 0;
    bool pid_of_main = false;  // by its main thread: no line has the process
    bool in_thread = false;
    DumpedThread thread;
  };
  Speaker& speaker_of(std::string_view label);
  void end_thread(Speaker& speaker);

  TakeThread take_;
  std::vector<Speaker> speakers_;
  int64_t damaged_ = 0;
};

/// True for a line "Thread 4711 (idle): "MainThread"" of a dump.
bool is_py_spy_line(std::string_view line);

/// A JSON dump. Of one that was cut off the whole threads are read; the result is then why. The error has the offset.
Result<std::string> read_py_spy_json(std::string bytes, const TakeThread& take);
/// By the file's first bytes.
bool is_py_spy_json(std::string_view head);

}  // namespace stalltrace::import
