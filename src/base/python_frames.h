// SPDX-License-Identifier: Apache-2.0
// Frames of a Python thread: as text, one a line, and which of them matter to the people who wrote the program. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace {

struct PythonFrame {
  std::string function;  // qualified from 3.11 on; the process's own text: not for a terminal as it is
  std::string file;
  std::optional<int32_t> line;

  bool operator==(const PythonFrame&) const = default;
};

/// Installed code: packages, the standard library, and what is frozen into the interpreter.
bool is_installed(const PythonFrame& frame);
/// "main.<locals>.step" → "step"
std::string_view short_function(const PythonFrame& frame);
/// "load_batch (data.py:212)", "load_batch (data.py)"; printable.
std::string brief_text(const PythonFrame& frame);

/// Of frames that are innermost first. Null where there are none.
struct PythonPlace {
  const PythonFrame* own = nullptr;        // the innermost that is in no installed package; else the innermost
  const PythonFrame* called = nullptr;     // what that one called, beyond decorators: itself, where it called nothing
  const PythonFrame* innermost = nullptr;  // of all
};
PythonPlace place_in(std::span<const PythonFrame> frames);

/// The thread waits for other processes of its own: inside a data loader of PyTorch, a pool or another worker.
bool waits_for_workers(std::span<const PythonFrame> frames);

/// One a line, innermost first, with the whole path: "load_batch (/home/u/data.py:212)"; printable.
std::string frames_to_text(std::span<const PythonFrame> frames);
/// The same back; other lines are skipped.
std::vector<PythonFrame> frames_from_text(std::string_view text);

}  // namespace stalltrace
