// SPDX-License-Identifier: Apache-2.0
// Frames of a thread, of Python or native: their text form, and which of them belong to the user's program. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stalltrace {

struct PythonFrame {
  std::string function;  // qualified from 3.11 on; unredacted text of the process, not safe for a terminal
  std::string file;      // of a native frame: the mapped file
  std::optional<int32_t> line;
  bool native = false;  // `function` is a symbol, or "+0x1f40" with the offset in the file

  bool operator==(const PythonFrame&) const = default;
};

/// True for installed code: packages, the standard library, modules frozen into the interpreter, and generated methods;
/// of native code that of libraries.
bool is_installed(const PythonFrame& frame);
/// "main.<locals>.step" → "step"
std::string_view short_function(const PythonFrame& frame);
/// "load_batch (data.py:212)", "load_batch (data.py)", "compute_step (train)"; printable.
std::string brief_text(const PythonFrame& frame);

/// `frames` are innermost first. Null where there are none.
struct PythonLocation {
  const PythonFrame* own = nullptr;        // the innermost frame outside installed packages; else the innermost
  const PythonFrame* called = nullptr;     // the frame that it called, beyond decorators; itself if it called nothing
  const PythonFrame* innermost = nullptr;  // of all frames
};
PythonLocation location_in(std::span<const PythonFrame> frames);

/// The function of native code that has no name anywhere: a perf map may be missing.
inline constexpr std::string_view kUnnamedCode = "unnamed code";
/// Where native code is, which has no lines.
struct NativeLocation {
  const PythonFrame* caller = nullptr;  // the program's innermost; of a thread in libraries alone, outside the system's
  const PythonFrame* called = nullptr;  // what it called; null: `caller` is where the thread is
};
/// nullopt for code of the system or without a name: that says nothing of the program.
std::optional<NativeLocation> native_location_in(std::span<const PythonFrame> frames);
/// "usleep, called by compute_step (train)", "compute_step (train)", "poll, called by run (libtorch_cpu.so)";
/// printable. Empty where native_location_in() has none.
std::string native_location_text(std::span<const PythonFrame> frames);
/// True if the thread waits for its own worker processes: in a data loader of PyTorch, a pool or another worker.
bool waits_for_workers(std::span<const PythonFrame> frames);

/// One frame per line, innermost first, with the whole path: "load_batch (/home/u/data.py:212)", of native ones
/// "compute_step [/home/u/train]"; printable.
std::string frames_to_text(std::span<const PythonFrame> frames);
/// The inverse; other lines are skipped.
std::vector<PythonFrame> frames_from_text(std::string_view text);

}  // namespace stalltrace
