// SPDX-License-Identifier: Apache-2.0
#include "import/py_spy/dump.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "base/text.h"
#include "import/json.h"

namespace stalltrace::import {
namespace {

constexpr size_t kMostSpeakers = 1024;
constexpr size_t kMostFrames = 1024;  // of a thread
constexpr size_t kLongestName = 512;

std::optional<int32_t> number_in(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? std::optional(value) : std::nullopt;
}

/// "0: ", " 12: " (srun -l), "[1,0]<stdout>:" (mpirun --tag-output) at the beginning of a line.
std::string_view label_of(std::string_view line) {
  constexpr size_t kLongestLabel = 32;
  const std::string_view head = line.substr(0, kLongestLabel);
  if (head.starts_with('[')) {
    const size_t end = head.find(">:");
    return end != std::string_view::npos && head.find("<std") < end ? head.substr(0, end + 2) : std::string_view();
  }
  const size_t digits = head.find_first_not_of(' ');
  const size_t colon = digits == std::string_view::npos ? digits : head.find_first_not_of("0123456789", digits);
  const bool labelled = colon != std::string_view::npos && colon > digits && head.substr(colon).starts_with(": ");
  return labelled ? head.substr(0, colon + 2) : std::string_view();
}

/// "Process 4711: python train.py"
std::optional<int32_t> process_in(std::string_view text) {
  constexpr std::string_view kProcess = "Process ";
  const size_t colon = text.find(':');
  return text.starts_with(kProcess) && colon != std::string_view::npos
             ? number_in(text.substr(kProcess.size(), colon - kProcess.size()))
             : std::nullopt;
}

/// "Thread 4711 (idle): "MainThread"", "Thread 0x7F3C (active+gil)"
std::optional<DumpedThread> thread_in(std::string_view text) {
  constexpr std::string_view kThread = "Thread ";
  if (!text.starts_with(kThread)) {
    return std::nullopt;
  }
  const size_t open = text.find(" (", kThread.size());
  const size_t close = open == std::string_view::npos ? open : text.find(')', open);
  if (close == std::string_view::npos) {
    return std::nullopt;
  }
  DumpedThread thread;
  const std::string_view id = text.substr(kThread.size(), open - kThread.size());
  const std::string_view status = text.substr(open + 2, close - open - 2);
  const std::string_view rest = text.substr(close + 1);
  if (id.empty() || !is_digit(id.front()) || (status != "idle" && status != "active" && status != "active+gil") ||
      (!rest.empty() && !rest.starts_with(": \""))) {
    return std::nullopt;
  }
  thread.tid = number_in(id).value_or(0);
  thread.status = std::string(status);
  thread.main = rest == ": \"MainThread\"";
  return thread;
}

/// "    step (train.py:88)"; deeper lines are arguments and local variables.
std::optional<PythonFrame> frame_in(std::string_view text) {
  const size_t open = text.rfind(" (");
  if (open == std::string_view::npos || open == 0 || !text.ends_with(')')) {
    return std::nullopt;
  }
  PythonFrame frame;
  frame.function = std::string(text.substr(0, std::min(open, kLongestName)));
  std::string_view file = text.substr(open + 2, text.size() - open - 3);
  const size_t colon = file.rfind(':');
  if (colon != std::string_view::npos) {
    frame.line = number_in(file.substr(colon + 1));
    file = frame.line ? file.substr(0, colon) : file;
  }
  frame.file = std::string(file.substr(0, kLongestName));
  return frame;
}

}  // namespace

PySpyLines::Speaker& PySpyLines::speaker_of(std::string_view label) {
  const auto known = std::ranges::find(speakers_, label, &Speaker::label);
  if (known != speakers_.end()) {
    return *known;
  }
  if (speakers_.size() == kMostSpeakers) {
    return speakers_.back();
  }
  speakers_.push_back({.label = std::string(label)});
  return speakers_.back();
}

void PySpyLines::end_thread(Speaker& speaker) {
  if (!speaker.in_thread) {
    return;
  }
  speaker.in_thread = false;
  speaker.thread.pid = speaker.pid;
  if (speaker.pid == 0) {
    ++damaged_;
    return;
  }
  speaker.thread.main = speaker.thread.main || speaker.thread.tid == speaker.pid;
  take_(speaker.thread);
}

void PySpyLines::read(std::string_view line) {
  const std::string_view label = label_of(line);
  const std::string_view text = line.substr(label.size());
  if (const auto pid = process_in(text)) {
    Speaker& speaker = speaker_of(label);
    end_thread(speaker);
    speaker.pid = *pid;
    speaker.pid_of_main = false;
  } else if (auto thread = thread_in(text)) {
    Speaker& speaker = speaker_of(label);
    end_thread(speaker);
    if (thread->main && thread->tid > 0 && (speaker.pid == 0 || speaker.pid_of_main)) {
      speaker.pid = thread->tid;  // the head of the dump is missing: Linux numbers the main thread like its process
      speaker.pid_of_main = true;
    }
    speaker.thread = std::move(*thread);
    speaker.in_thread = true;
  } else if (text.starts_with("    ") && text.size() > 4 && text[4] != ' ' && !speakers_.empty()) {
    Speaker& speaker = speaker_of(label);
    const auto frame = speaker.in_thread ? frame_in(text.substr(4)) : std::nullopt;
    if (frame && speaker.thread.frames.size() < kMostFrames) {
      speaker.thread.frames.push_back(*frame);
    } else if (speaker.in_thread) {
      ++damaged_;
    }
  } else if (!text.empty() && text.front() != ' ') {
    const auto known = std::ranges::find(speakers_, label, &Speaker::label);
    if (known != speakers_.end()) {
      end_thread(*known);  // other output: indented lines behind it are no frames
    }
  }
}

void PySpyLines::finish() {
  for (Speaker& speaker : speakers_) {
    end_thread(speaker);
  }
}

bool is_py_spy_line(std::string_view line) { return thread_in(line.substr(label_of(line).size())).has_value(); }

Result<std::string> read_py_spy_json(std::string bytes, const TakeThread& take) {
  auto tree = std::make_unique<ValueTree>();
  std::string cut;
  Result<ValueIndex> top = read_json(bytes, *tree);
  if (!top) {
    cut = top.error().what;
    tree = std::make_unique<ValueTree>();
    bytes.resize(end_of_items(bytes, "["));
    bytes += ']';
    top = read_json(bytes, *tree);
    if (!top || tree->items(*top).empty()) {
      return fail(cut, {}, ErrorKind::kCorrupt);
    }
  }
  const auto small = [](std::optional<int64_t> number) {
    return number && *number > 0 && *number < (int64_t{1} << 30) ? static_cast<int32_t>(*number) : 0;
  };
  for (const ValueIndex item : tree->items(*top)) {
    DumpedThread thread;
    thread.pid = small(tree->integer(tree->find(item, "pid")));
    thread.tid = small(tree->integer(tree->find(item, "os_thread_id")));
    const bool gil = tree->integer(tree->find(item, "owns_gil")) == 1;
    thread.status = gil ? "active+gil" : tree->integer(tree->find(item, "active")) == 1 ? "active" : "idle";
    thread.main = tree->text(tree->find(item, "thread_name")) == "MainThread" || thread.tid == thread.pid;
    for (const ValueIndex frame : tree->items(tree->find(item, "frames"))) {
      if (thread.frames.size() == kMostFrames) {
        break;
      }
      const int32_t line = small(tree->integer(tree->find(frame, "line")));
      thread.frames.push_back({.function = std::string(tree->text(tree->find(frame, "name")).substr(0, kLongestName)),
                               .file = std::string(tree->text(tree->find(frame, "filename")).substr(0, kLongestName)),
                               .line = line == 0 ? std::nullopt : std::optional(line)});
    }
    if (thread.pid > 0) {
      take(thread);
    }
  }
  return cut;
}

bool is_py_spy_json(std::string_view head) {
  const size_t begin = head.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && head[begin] == '[' &&
         head.find("\"thread_id\"") != std::string_view::npos && head.find("\"owns_gil\"") != std::string_view::npos &&
         head.find("\"frames\"") != std::string_view::npos;
}

}  // namespace stalltrace::import
