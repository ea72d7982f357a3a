// SPDX-License-Identifier: Apache-2.0
#include "stacks/output/stacks_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.h"
#include "stacks/output/describe.h"

namespace stalltrace::stacks {
namespace {

constexpr size_t kCommandCharacters = 100;
constexpr size_t kNativeFrames = 16;
constexpr size_t kNativeBesidePython = 6;

std::string shortened(std::string_view text) {
  const std::string shown = printable(text.substr(0, kCommandCharacters));
  return text.size() > kCommandCharacters ? shown + "..." : shown;
}

std::string frame_text(const PythonFrame& frame) {
  return fmt::format("{} ({}{})", printable(frame.function), printable(frame.file),
                     frame.line ? fmt::format(":{}", *frame.line) : "");
}

class Writer {
 public:
  void process(const RankStacks& one, size_t indent, std::string_view role) {
    const std::string margin(indent, ' ');
    const std::string who = one.rank && indent == 0 ? fmt::format("rank {}, pid {}", *one.rank, one.pid)
                                                    : fmt::format("{} {}", role, one.pid);
    if (!one.stacks) {
      text_ += fmt::format("{}{}: {}\n", margin, who, message(one.stacks.error()));
    } else {
      const ProcessStacks& stacks = *one.stacks;
      text_ += fmt::format("{}{}{}: {}\n", margin, who,
                           stacks.python ? fmt::format(", CPython {}", stacks.python->version) : "",
                           shortened(stacks.command));
      // The command line already shows that a program is not Python.
      if (stacks.no_python && (stacks.python || stacks.no_python->kind != ErrorKind::kUnsupported)) {
        text_ += fmt::format("{}  no Python frames: {}\n", margin, message(*stacks.no_python));
      }
      threads(stacks, indent + 2);
    }
    for (const RankStacks& child : one.children) {
      process(child, indent + 2, "child");
    }
  }

  [[nodiscard]] std::string& text() { return text_; }

 private:
  static std::string message(const Error& error) {
    return printable(error.remedy.empty() ? error.what : error.what + "; " + error.remedy);
  }

  void threads(const ProcessStacks& stacks, size_t indent) {
    const std::string margin(indent, ' ');
    std::map<std::string, size_t> others;
    for (const ThreadStack& thread : stacks.threads) {
      // Threads without Python code are only counted, except for the main thread.
      if (thread.tid != stacks.pid &&
          (!thread.python || (thread.python->frames.empty() && thread.python->problem.empty()))) {
        const std::string call = describe_native_call(thread);
        const std::string wait = describe_wait_briefly(thread);
        ++others[call.empty() ? wait : fmt::format("{} ({})", wait, call)];
        continue;
      }
      text_ += fmt::format("{}thread {} \"{}\": {}{}\n", margin, thread.tid, printable(thread.name),
                           describe_wait(thread), thread.python ? gil_text(*thread.python) : "");
      native(thread, indent + 2);
      if (thread.python) {
        frames(*thread.python, indent + 2);
      }
    }
    for (const PythonThread& thread : stacks.unnumbered) {
      text_ += fmt::format("{}a thread whose number is not known{}\n", margin, gil_text(thread));
      frames(thread, indent + 2);
    }
    if (!others.empty()) {
      size_t count = 0;
      std::vector<std::string> parts;
      for (const auto& [wait, number] : others) {
        count += number;
        parts.push_back(fmt::format("{} {}", number, wait));
      }
      text_ += fmt::format("{}{} thread{} without Python code: {}\n", margin, count, count == 1 ? "" : "s",
                           fmt::join(parts, ", "));
    }
    for (const std::string& note : stacks.notes) {
      text_ += fmt::format("{}note: {}\n", margin, note);
    }
  }

  static std::string gil_text(const PythonThread& thread) {
    return thread.collecting ? ", collects garbage" : thread.holds_gil == true ? ", holds the GIL" : "";
  }

  /// Of a Python thread, those that its innermost Python code called.
  void native(const ThreadStack& thread, size_t indent) {
    if (!thread.native || thread.native->frames.empty()) {
      return;
    }
    std::span<const PythonFrame> frames = thread.native->frames;
    const bool python = thread.python && !thread.python->frames.empty();
    if (python) {
      const auto interpreter = std::ranges::find_if(
          frames, [](const PythonFrame& frame) { return frame.function.starts_with("_PyEval_Eval"); });
      frames = frames.first(static_cast<size_t>(interpreter - frames.begin()));
    }
    const size_t most = python ? kNativeBesidePython : kNativeFrames;
    const std::string margin(indent, ' ');
    for (size_t i = 0; i < frames.size() && i < most; ++i) {
      text_ += fmt::format("{}{} ({}), native\n", margin, printable(frames[i].function), printable(frames[i].file));
    }
    if (frames.size() > most) {
      text_ += fmt::format("{}... {} native frames more\n", margin, frames.size() - most);
    }
  }

  void frames(const PythonThread& thread, size_t indent) {
    const std::string margin(indent, ' ');
    if (!thread.problem.empty()) {
      text_ += fmt::format("{}note: {}\n", margin, thread.problem);
    }
    if (thread.changing > 0) {
      text_ += fmt::format("{}note: it ran: the innermost {} changed while they were read\n", margin,
                           thread.changing == 1 ? "frame" : fmt::format("{} frames", thread.changing));
    }
    for (size_t i = 0; i < thread.frames.size();) {
      if (thread.left_out > 0 && i == thread.left_out_at) {
        text_ += fmt::format("{}... {} frames more\n", margin, thread.left_out);
      }
      size_t equal = 1;  // deep recursion takes one line
      while (i + equal < thread.frames.size() && thread.frames[i + equal] == thread.frames[i] &&
             !(thread.left_out > 0 && i + equal == thread.left_out_at)) {
        ++equal;
      }
      text_ += fmt::format("{}{}{}\n", margin, frame_text(thread.frames[i]),
                           equal > 1 ? fmt::format(", {} times", equal) : "");
      i += equal;
    }
  }

  std::string text_;
};

}  // namespace

std::string stacks_text(std::span<const RankStacks> ranks) {
  Writer writer;
  const std::vector<FoldedJob> jobs = fold_jobs(ranks);
  for (const FoldedJob& job : jobs) {
    const std::string line = folded_line(job.locations);
    writer.text() += jobs.size() > 1 ? fmt::format("job {}: {}\n", printable(job.job), line) : line + "\n";
  }
  for (const RankStacks& one : ranks) {
    writer.text() += writer.text().empty() ? "" : "\n";
    writer.process(one, 0, "pid");
  }
  return std::move(writer.text());
}

}  // namespace stalltrace::stacks
