// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_log/tracebacks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "model/events/imported/cuda_error.h"
#include "model/events/imported/logged_exception.h"

namespace stalltrace::import {
namespace {

constexpr std::string_view kTorchrun = "[default";
constexpr size_t kLongestLabel = 256;
constexpr size_t kMostRanksKept = 8192;
constexpr size_t kMostOthers = 64;  // exceptions without a rank's label
// As a trace keeps of an exception (docs/recording.md):
constexpr size_t kInnermostFrames = 12;
constexpr size_t kOutermostFrames = 4;
constexpr int64_t kMostDepth = 1100;
constexpr size_t kLongestName = 256;  // of a function or file
constexpr size_t kLongestKeptLine = 1024;
constexpr int32_t kMostRanks = 1 << 24;

std::optional<int32_t> number_before(std::string_view text, std::string_view end) {
  int32_t number = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest = text.substr(static_cast<size_t>(at - text.data()));
  return error == std::errc() && number >= 0 && number < kMostRanks && rest.starts_with(end) ? std::optional(number)
                                                                                             : std::nullopt;
}

/// The rank in "[rank1]:", and the position behind it.
std::optional<std::pair<int32_t, size_t>> rank_label(std::string_view line) {
  const std::string_view head = line.substr(0, kLongestLabel);
  const size_t at = head.find("[rank");
  const auto rank = at == std::string_view::npos ? std::nullopt : number_before(head.substr(at + 5), "]:");
  return rank ? std::optional(std::pair(*rank, head.find("]:", at) + 2)) : std::nullopt;
}

/// "10:00:00.5", "2026-05-05T10:00:00Z", "2026-05-05": differs from line to line.
bool is_time(std::string_view word) {
  int digits = 0;
  int separators = 0;
  for (const char c : word) {
    digits += is_digit(c) ? 1 : 0;
    separators += c == ':' || c == '-' || c == '/' ? 1 : 0;
  }
  return digits >= 6 && separators >= 2 && word.find('<') == std::string_view::npos;
}

/// The name of a type at the beginning of "torch.OutOfMemoryError: CUDA out of memory": "OutOfMemoryError".
std::string type_in(std::string_view content) {
  size_t end = 0;
  while (end < content.size() &&
         (is_digit(content[end]) || content[end] == '_' || content[end] == '.' ||
          (content[end] >= 'a' && content[end] <= 'z') || (content[end] >= 'A' && content[end] <= 'Z'))) {
    ++end;
  }
  const std::string_view name = content.substr(0, end);
  const bool ends = end == content.size() || content.substr(end).starts_with(": ") || content.substr(end) == ":";
  if (!ends || name.empty() || name.size() > kLongestLabel || is_digit(name.front()) || name.ends_with('.')) {
    return {};
  }
  return std::string(name.substr(name.rfind('.') + 1));
}

/// `  File "train.py", line 42, in main`
std::optional<PythonFrame> frame_in(std::string_view content) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = ", in ";
  const size_t line_at = content.find(kLine);
  if (!content.starts_with(kFile) || line_at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = content.substr(line_at + kLine.size());
  const auto line = number_before(rest, kIn);
  if (!line) {
    return std::nullopt;  // of a SyntaxError: the location of the error, no frame
  }
  const std::string_view function = rest.substr(rest.find(kIn) + kIn.size());
  const std::string_view file = content.substr(kFile.size(), line_at - kFile.size());
  const std::string_view end_of_path = file.substr(file.size() - std::min(file.size(), kLongestName));
  return PythonFrame{std::string(function.substr(0, kLongestName)), std::string(end_of_path), *line};
}

/// What a process that ends prints after its exception; other lines show that the program went on.
bool belongs_to_an_end(std::string_view content) {
  constexpr std::array<std::string_view, 8> kBegins{
      "[",       "frame #",           "terminate called", "  what():", "Exception raised from", "Fatal Python error",
      "Aborted", "Segmentation fault"};
  return content.find_first_not_of(" \t\r") == std::string_view::npos ||
         content.find("CCL ") != std::string_view::npos ||
         std::ranges::any_of(kBegins, [&](std::string_view one) { return content.starts_with(one); });
}

bool is_chain_link(std::string_view content) {
  return content.starts_with("During handling of the above exception, another exception occurred:") ||
         content.starts_with("The above exception was the direct cause of the following exception:");
}

/// The number in torchrun's "[default1]:", the local rank, at the end of a label.
std::optional<int32_t> torchrun_number(std::string_view label) {
  const size_t at = label.rfind(kTorchrun);
  const auto number =
      at == std::string_view::npos ? std::nullopt : number_before(label.substr(at + kTorchrun.size()), "]:");
  return number && label.ends_with("]:") ? number : std::nullopt;
}

}  // namespace

bool is_ranks_traceback(std::string_view line) {
  const size_t at = line.find(kTracebackHeader);
  const auto label = at == std::string_view::npos ? std::nullopt : rank_label(line);
  if (!label || at < label->second) {
    return false;
  }
  const std::string_view between = line.substr(label->second, at - label->second);
  return between.empty() || between == " " || between == "   + Exception Group ";
}

Tracebacks::Label Tracebacks::label_of(std::string_view text) {
  Label label;
  if (const auto rank = rank_label(text)) {
    label.rank = rank->first;
  }
  for (size_t blank = text.find(' '); blank != std::string_view::npos; blank = text.find(' ')) {
    const std::string_view word = text.substr(0, blank);
    label.words.emplace_back(is_time(word) ? std::string_view() : word);
    text.remove_prefix(blank + 1);
  }
  label.tail = text;
  return label;
}

std::optional<std::string_view> Tracebacks::content_behind(const Label& label, std::string_view line) {
  for (const std::string& word : label.words) {
    const size_t blank = line.find(' ');
    const std::string_view own = line.substr(0, blank);
    if (word.empty() ? !is_time(own) && !own.empty() : own != word) {
      return std::nullopt;
    }
    line = blank == std::string_view::npos ? std::string_view() : line.substr(blank + 1);
  }
  if (!line.starts_with(label.tail)) {
    return std::nullopt;
  }
  return line.substr(label.tail.size());
}

void Tracebacks::take(int64_t number, std::string_view line, const std::function<int64_t()>& time_of) {
  const auto ranked = rank_label(line);
  note_torchrun(line, ranked ? std::optional(ranked->first) : std::nullopt);
  const size_t at = line.substr(0, kLongestLabel + kTracebackHeader.size()).find(kTracebackHeader);
  const std::string_view before = at == std::string_view::npos ? std::string_view() : line.substr(0, at);
  // In a message: "Original Traceback" (of a worker of a data loader), or an exception inside of a group.
  constexpr std::string_view kGroup = "  + Exception Group ";
  const bool group = before.ends_with(kGroup);
  const bool in_message = before.ends_with("Original ") || before.ends_with("| ") || before.ends_with("Group ");
  if (at != std::string_view::npos && (group || !in_message)) {
    begin(number, line, group ? before.substr(0, before.size() - kGroup.size()) : before, group, time_of);
  } else if (ranked) {
    const auto stream = by_rank_.find(ranked->first);
    const auto content = stream == by_rank_.end() ? std::nullopt : content_behind(stream->second.label, line);
    if (content) {
      go_on(stream->second, *content, line);
    } else if (stream != by_rank_.end()) {
      note_next(stream->second, number, line, ranked->second, time_of);
    }
  } else {
    for (Stream& stream : others_) {
      if (const auto content = content_behind(stream.label, line)) {
        go_on(stream, *content, line);
      }
    }
  }
  previous_ = line.substr(0, kLongestLabel);
}

void Tracebacks::begin(int64_t number, std::string_view line, std::string_view label, bool group,
                       const std::function<int64_t()>& time_of) {
  Stream next{.label = label_of(label)};
  const auto continues = [&](Stream& stream) {
    if (stream.label.words != next.label.words || stream.label.tail != next.label.tail) {
      return false;
    }
    const bool chained = stream.state == Stream::State::kChained;
    stream.state = chained ? Stream::State::kLater : stream.state;
    stream.went_on = stream.went_on || !chained;
    return chained;
  };
  const auto of_rank = next.label.rank ? by_rank_.find(*next.label.rank) : by_rank_.end();
  const bool chained = next.label.rank ? of_rank != by_rank_.end() && continues(of_rank->second)
                                       : std::ranges::count_if(others_, continues) > 0;
  const bool ends_nothing = previous_.find("Exception in thread ") != std::string::npos ||
                            previous_.find("Exception ignored in") != std::string::npos;
  if (!next.label.rank && others_.size() == kMostOthers) {
    std::erase_if(others_, [](const Stream& stream) { return stream.went_on; });
  }
  const bool full =
      next.label.rank ? of_rank == by_rank_.end() && by_rank_.size() == kMostRanksKept : others_.size() == kMostOthers;
  if (chained || ends_nothing || full) {
    return;
  }
  next.exception.rank = next.label.rank;
  next.exception.labelled = !label.empty();
  next.exception.line = number;
  next.exception.time_ns = time_of();
  // What a program prints behind it may hold data.
  next.exception.header =
      line.substr(0, std::min(line.find(kTracebackHeader) + kTracebackHeader.size(), kLongestKeptLine));
  next.state = group ? Stream::State::kInGroup : Stream::State::kFrames;
  if (next.label.rank) {
    by_rank_.insert_or_assign(*next.label.rank, std::move(next));
  } else {
    others_.push_back(std::move(next));
  }
}

/// "[rank1]:[W505 10:00:00.5 ProcessGroupNCCL.cpp:1496] Warning: ...": the exception has no time, but was before it.
void Tracebacks::note_next(Stream& stream, int64_t number, std::string_view line, size_t label_end,
                           const std::function<int64_t()>& time_of) {
  const std::string_view behind = line.substr(label_end, 3);
  const bool of_logger =
      behind.size() == 3 && behind[0] == '[' && std::string_view("IWEF").contains(behind[1]) && is_digit(behind[2]);
  if (stream.whole && stream.exception.next_text.empty() && of_logger) {
    const size_t end = line.find(']', label_end + 1);  // its time is in the brackets; the message may hold data
    stream.exception.next_text = line.substr(0, end == std::string_view::npos ? label_end : end + 1);
    stream.exception.next_line = number;
    stream.exception.next_ns = time_of();
  }
}

void Tracebacks::go_on(Stream& stream, std::string_view content, std::string_view line) {
  if (stream.state == Stream::State::kEnded || stream.state == Stream::State::kChained) {
    if (is_chain_link(content)) {
      stream.state = Stream::State::kChained;
    } else if (!stream.label.rank && !belongs_to_an_end(content)) {
      stream.went_on = true;
    }
    return;
  }
  if (stream.state == Stream::State::kLater) {
    const bool inside = content.empty() || content.starts_with(' ');
    stream.state = inside ? stream.state : Stream::State::kEnded;
    return;
  }
  if (stream.state == Stream::State::kInGroup && content.starts_with("  | ")) {
    content.remove_prefix(4);
  }
  if (content.starts_with(' ')) {
    if (auto frame = frame_in(content)) {
      stream.exception.depth = std::min(stream.exception.depth + 1, kMostDepth);
      stream.frames.push_back(std::move(*frame));
      if (stream.frames.size() > kOutermostFrames + kInnermostFrames) {
        stream.frames.erase(stream.frames.begin() + static_cast<std::ptrdiff_t>(kOutermostFrames));
      }
    }
    return;
  }
  if (content.empty()) {
    return;
  }
  stream.state = Stream::State::kEnded;
  stream.exception.type = type_in(content);
  const size_t type_end = std::min(content.find(':'), content.size());  // the message may hold data
  stream.exception.last_line = line.substr(0, std::min(line.size() - content.size() + type_end, kLongestKeptLine));
  if (const CudaError* const error = cuda_error_in(content)) {
    stream.exception.cuda_error = std::string(kCudaErrorPrefix) + std::string(error->text);
  }
  stream.exception.of_communication = is_failed_communication(content);
  stream.whole = !stream.exception.type.empty();
}

/// Learns which rank torchrun's labels stand for: they number the processes of a host.
void Tracebacks::note_torchrun(std::string_view line, std::optional<int32_t> rank) {
  const size_t end = line.substr(0, kLongestLabel).find("]:");
  const auto number = end == std::string_view::npos ? std::nullopt : torchrun_number(line.substr(0, end + 2));
  if (number && !rank && line.find("[PG ") == std::string_view::npos) {
    const size_t at = line.find("[Rank ");  // before PyTorch 2.3
    rank = at == std::string_view::npos ? std::nullopt : number_before(line.substr(at + 6), "]");
  }
  if (number && rank) {
    torchrun_ranks_known_ = true;
    torchrun_differs_ = torchrun_differs_ || *number != *rank;
  }
}

std::optional<int32_t> Tracebacks::rank_by_torchrun(const Label& label) const {
  return torchrun_ranks_known_ && !torchrun_differs_ && label.words.empty() ? torchrun_number(label.tail)
                                                                            : std::nullopt;
}

void Tracebacks::keep(Stream& stream, std::vector<LoggedException>& found) const {
  if (!stream.whole || stream.went_on) {
    return;
  }
  LoggedException& exception = stream.exception;
  exception.rank = exception.rank ? exception.rank : rank_by_torchrun(stream.label);
  exception.frames.assign(stream.frames.rbegin(), stream.frames.rend());
  found.push_back(std::move(exception));
}

std::vector<LoggedException> Tracebacks::finish() {
  std::vector<LoggedException> found;
  for (auto& [rank, stream] : by_rank_) {
    keep(stream, found);
  }
  for (Stream& stream : others_) {
    keep(stream, found);
  }
  std::ranges::sort(found, {}, &LoggedException::line);
  *this = Tracebacks();
  return found;
}

}  // namespace stalltrace::import
