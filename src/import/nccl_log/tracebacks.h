// SPDX-License-Identifier: Apache-2.0
// What Python's interpreter prints of an exception that ends a program, in a job's output: of several ranks at once,
// behind the labels of launchers. Lines of ranks may alternate; those of one rank are in order. Pure. Internal to
// import/nccl_log.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/python_frames.h"

namespace stalltrace::import {

/// True for "[rank1]: Traceback (most recent call last):", with the label that PyTorch's sys.excepthook puts before the
/// lines of an exception that nothing caught. Any program may print other labels.
bool is_ranks_traceback(std::string_view line);

/// One exception. Of a chain ("During handling of the above exception, ..."), the first: the others follow from it.
struct LoggedException {
  std::optional<int32_t> rank;      // by a label; none: the line has none, or it can number something else
  bool labelled = false;            // with a label of which the rank is not known
  int64_t line = 0;                 // of its first line, from 1
  int64_t time_ns = 0;              // of that line
  std::string header;               // that line
  std::string last_line;            // with type and message
  std::string type;                 // "ValueError"
  std::string cuda_error;           // "CUDA error: misaligned address": a text of CUDA's own; empty: none
  std::vector<PythonFrame> frames;  // innermost first; of a deep traceback the innermost and outermost
  int64_t depth = 0;                // of the traceback
  std::string next_text;            // of the first line with a time that the same rank logged after it; empty: none
  int64_t next_line = 0;
  int64_t next_ns = 0;
  bool of_communication = false;  // by its type or message: a collective failed, or the process was asked to end
};

class Tracebacks {
 public:
  /// Lines of a file, in order, without escape sequences. `time_of` is asked for the time of this line.
  void take(int64_t number, std::string_view line, const std::function<int64_t()>& time_of);
  /// At the end of the file: in the order of their first lines. Without those that a program printed and went on, as
  /// far as what it printed next shows it, and those of threads and destructors, which end nothing.
  std::vector<LoggedException> finish();

 private:
  /// What stands before a line's content: words, of which those with a time differ from line to line, and what is glued
  /// to the content.
  struct Label {
    std::vector<std::string> words;
    std::string tail;
    std::optional<int32_t> rank;  // "[rank1]:"
  };
  struct Stream {
    /// kChained: after the sentence that another one follows; kLater: in that one.
    enum class State : uint8_t { kFrames, kInGroup, kEnded, kChained, kLater };
    Label label;
    LoggedException exception;  // the first of the chain
    std::deque<PythonFrame> frames;
    State state = State::kFrames;
    bool whole = false;    // its type was read
    bool went_on = false;  // the program printed more
  };

  static Label label_of(std::string_view text);
  /// The content, if the line has this label.
  static std::optional<std::string_view> content_behind(const Label& label, std::string_view line);
  void begin(int64_t number, std::string_view line, std::string_view label, bool group,
             const std::function<int64_t()>& time_of);
  static void note_next(Stream& stream, int64_t number, std::string_view line, size_t label_end,
                        const std::function<int64_t()>& time_of);
  static void go_on(Stream& stream, std::string_view content, std::string_view line);
  void note_torchrun(std::string_view line, std::optional<int32_t> rank);
  [[nodiscard]] std::optional<int32_t> rank_by_torchrun(const Label& label) const;
  void keep(Stream& stream, std::vector<LoggedException>& found) const;

  std::map<int32_t, Stream> by_rank_;  // the last one of each
  std::vector<Stream> others_;
  bool torchrun_ranks_known_ = false;  // a line has both "[default1]:" and "[rank1]:"
  bool torchrun_differs_ = false;      // their numbers are not equal: there are several hosts
  std::string previous_;
};

}  // namespace stalltrace::import
