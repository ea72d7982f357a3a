// SPDX-License-Identifier: Apache-2.0
#include "base/python_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/elf/code_kind.h"
#include "base/text.h"

namespace stalltrace {
namespace {

/// Functions that only forward a call: decorators, and torch's module call.
bool only_forwards(std::string_view function) {
  constexpr std::array<std::string_view, 5> kNames{"wrapper", "inner", "decorate_context", "_call_impl",
                                                   "_wrapped_call_impl"};
  const std::string_view last = function.substr(function.rfind('.') + 1);
  return std::ranges::find(kNames, last) != kNames.end();
}

std::string text_of(std::string_view function, std::string_view file, std::optional<int32_t> line) {
  std::string text = printable(function) + " (" + printable(file);
  if (line) {
    text += ':' + std::to_string(*line);
  }
  return text + ')';
}

/// A file's name in brackets ends the line: it contains no bracket before which a blank is.
std::string native_text(const PythonFrame& frame) {
  std::string file = printable(frame.file);
  for (size_t at = file.find(" ["); at != std::string::npos; at = file.find(" [", at)) {
    file[at] = '_';
  }
  return printable(frame.function) + " [" + file + ']';
}

/// "compute_step [/home/u/train]"
std::optional<PythonFrame> native_from_text(std::string_view line) {
  const size_t open = line.rfind(" [");
  if (open == std::string_view::npos || open == 0 || !line.ends_with(']')) {
    return std::nullopt;
  }
  const std::string_view file = line.substr(open + 2, line.size() - open - 3);
  return PythonFrame{
      .function = std::string(line.substr(0, open)), .file = std::string(file), .line = {}, .native = true};
}

/// Methods of dataclasses and the like, which were compiled from a text; a program given by `python -c` is "<string>",
/// too.
bool is_generated(const PythonFrame& frame) {
  constexpr std::array<std::string_view, 4> kGenerated{"<frozen ", "<attrs generated", "<eval_with_key>",
                                                       "<decorator-gen"};
  const std::string_view function = std::string_view(frame.function).substr(frame.function.rfind('.') + 1);
  return (frame.file == "<string>" && function.starts_with("__") && function.ends_with("__")) ||
         std::ranges::any_of(kGenerated, [&](std::string_view begin) { return frame.file.starts_with(begin); });
}

std::string_view file_name(const PythonFrame& frame) { return base_name(frame.file); }

}  // namespace

bool is_installed(const PythonFrame& frame) {
  if (frame.native) {
    return is_library_file(frame.file);
  }
  constexpr std::array<std::string_view, 3> kFolders{"/site-packages/", "/dist-packages/", "/lib/python3"};
  return is_generated(frame) || std::ranges::any_of(kFolders, [&](std::string_view folder) {
           return frame.file.find(folder) != std::string::npos;
         });
}

std::string_view short_function(const PythonFrame& frame) {
  constexpr std::string_view kLocal = "<locals>.";
  const size_t at = frame.function.rfind(kLocal);
  return std::string_view(frame.function).substr(at == std::string::npos ? 0 : at + kLocal.size());
}

std::string brief_text(const PythonFrame& frame) {
  return text_of(short_function(frame), file_name(frame), frame.line);
}

PythonLocation location_in(std::span<const PythonFrame> frames) {
  if (frames.empty()) {
    return {};
  }
  const auto own = std::ranges::find_if_not(frames, is_installed);
  const auto at = own == frames.end() ? frames.begin() : own;
  auto called = at;
  while (called != frames.begin() && (called == at || only_forwards(called->function))) {
    --called;
  }
  return {&*at, &*called, &frames.front()};
}

std::optional<NativeLocation> native_location_in(std::span<const PythonFrame> frames) {
  const auto own = std::ranges::find_if_not(frames, is_installed);
  const auto at = own != frames.end() ? own : std::ranges::find_if_not(frames, [](const PythonFrame& frame) {
    return is_system_code(frame.file);
  });
  if (at == frames.end() || at->function.starts_with('+') || at->function == kUnnamedCode) {
    return std::nullopt;
  }
  const PythonFrame* const called = own != frames.end() ? location_in(frames).called : &frames.front();
  return NativeLocation{.caller = &*at, .called = called == &*at ? nullptr : called};
}

std::string native_location_text(std::span<const PythonFrame> frames) {
  const std::optional<NativeLocation> location = native_location_in(frames);
  if (!location) {
    return {};
  }
  const std::string caller = brief_text(*location->caller);
  return location->called == nullptr ? caller
                                     : fmt::format("{}, called by {}", printable(location->called->function), caller);
}

bool waits_for_workers(std::span<const PythonFrame> frames) {
  for (const PythonFrame& frame : frames) {
    if (!is_installed(frame)) {
      return false;
    }
    if (frame.file.find("/torch/utils/data/") != std::string::npos ||
        frame.file.find("/multiprocessing/") != std::string::npos ||
        frame.file.find("/concurrent/futures/") != std::string::npos) {
      return true;
    }
  }
  return false;
}

std::string frames_to_text(std::span<const PythonFrame> frames) {
  std::string text;
  for (const PythonFrame& frame : frames) {
    text += text.empty() ? "" : "\n";
    text += frame.native ? native_text(frame) : text_of(frame.function, frame.file, frame.line);
  }
  return text;
}

std::vector<PythonFrame> frames_from_text(std::string_view text) {
  std::vector<PythonFrame> frames;
  for (const std::string_view line : split(text, '\n')) {
    if (auto native = native_from_text(line)) {
      frames.push_back(std::move(*native));
      continue;
    }
    const size_t open = line.find(" (");
    if (open == std::string_view::npos || open == 0 || !line.ends_with(')')) {
      continue;
    }
    PythonFrame frame{.function = std::string(line.substr(0, open)), .file = {}, .line = {}, .native = false};
    std::string_view location = line.substr(open + 2);
    location.remove_suffix(1);
    const size_t colon = location.rfind(':');
    const auto number =
        colon == std::string_view::npos ? Result<int64_t>(0) : parse_integer(location.substr(colon + 1));
    if (number && *number > 0 && *number <= std::numeric_limits<int32_t>::max()) {
      frame.line = static_cast<int32_t>(*number);
      location = location.substr(0, colon);
    }
    frame.file = std::string(location);
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace stalltrace
