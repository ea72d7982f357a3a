// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/process_report.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "model/events/imported/cuda_error.h"

namespace stalltrace {
namespace {

using Kind = ProcessReport::Kind;

constexpr std::string_view kEndedText = "torchrun: ";
constexpr std::string_view kStuckFor = "watchdog got stuck for ";
constexpr std::string_view kPeerClosed = "Connection closed by remote peer ";
constexpr std::string_view kDuplicate = "Duplicate GPU detected : ";
/// What stands before the exception that ended a thread or the process.
constexpr std::array<std::string_view, 2> kEndings{"thread terminated with exception: ", "what():  "};

template <typename Number>
std::optional<Number> number_behind_key(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  Number number = 0;
  const char* const begin = text.data() + at + key.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// The word behind `key`, up to a comma.
std::string_view word_behind(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  const std::string_view rest = at == std::string_view::npos ? std::string_view() : text.substr(at + key.size());
  return rest.substr(0, rest.find(','));
}

std::optional<ProcessReport> read_ended(std::string_view line) {
  const auto pid = number_behind_key<int32_t>(line, " pid ");
  const auto exit_code = number_behind_key<int32_t>(line, " exit code ");
  if (!pid || *pid <= 0 || !exit_code) {
    return std::nullopt;
  }
  ProcessReport report{.kind = Kind::kEnded};
  report.ended = {.first = line.substr(kEndedText.size()).starts_with("first "), .pid = *pid, .exit_code = *exit_code};
  report.ended.rank = number_behind_key<int32_t>(line, ", rank ");
  report.ended.local_rank = number_behind_key<int32_t>(line, ", local rank ");
  report.ended.host = word_behind(line, ", host ");
  report.ended.time = word_behind(line, ", time ");
  return report;
}

}  // namespace

std::string text_of(const EndedProcess& process) {
  std::string text = fmt::format("{}{}failure", kEndedText, process.first ? "first " : "");
  text += process.rank ? fmt::format(", rank {}", *process.rank) : "";
  text += process.local_rank ? fmt::format(", local rank {}", *process.local_rank) : "";
  text += fmt::format(", pid {}, exit code {}", process.pid, process.exit_code);
  text += process.host.empty() ? "" : fmt::format(", host {}", process.host);
  return text + (process.time.empty() ? "" : fmt::format(", time {}", process.time));
}

std::optional<ProcessReport> read_process_report(std::string_view line) {
  if (line.starts_with(kEndedText)) {
    return read_ended(line);
  }
  if (const auto stuck_s = number_behind_key<int64_t>(line, kStuckFor); stuck_s && *stuck_s >= 0) {
    return ProcessReport{.kind = Kind::kStuck, .stuck_s = *stuck_s};
  }
  if (const size_t at = line.find(kDuplicate); at != std::string_view::npos) {
    return ProcessReport{.kind = Kind::kDuplicateGpu, .error = line.substr(at)};
  }
  if (const size_t at = line.find(kPeerClosed); at != std::string_view::npos) {
    const std::string_view rest = line.substr(at + kPeerClosed.size());
    const std::string_view peer = rest.substr(0, rest.find_first_of(" ,\t"));
    return peer.empty() ? std::nullopt
                        : std::optional(ProcessReport{.kind = Kind::kPeerGone, .error = line.substr(at), .peer = peer});
  }
  if (line.starts_with(kCudaErrorPrefix) && cuda_error_in(line) != nullptr) {
    return ProcessReport{.kind = Kind::kCudaError, .error = line};  // of a traceback, by import/nccl_log
  }
  for (const std::string_view ending : kEndings) {
    const size_t at = line.find(ending);
    if (at == std::string_view::npos) {
      continue;
    }
    std::string_view error = line.substr(at + ending.size());
    if (ending == kEndings[1] && error.starts_with('[')) {
      continue;  // "what():  [PG 0 Rank 1] Process group watchdog thread terminated with exception: ..."
    }
    if (error.starts_with(kCudaErrorPrefix) && cuda_error_in(error) != nullptr) {
      return ProcessReport{.kind = Kind::kCudaError, .error = error};
    }
    if (error.starts_with("NCCL error: ") || error.starts_with("NCCL Error ")) {
      return ProcessReport{.kind = Kind::kNcclError, .error = error};
    }
  }
  return std::nullopt;
}

}  // namespace stalltrace
