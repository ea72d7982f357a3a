// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_log/torchrun.h"

#include <charconv>

#include "base/text.h"

namespace stalltrace::import {
namespace {

constexpr std::string_view kRootCause = "Root Cause (first observed failure):";
constexpr size_t kLongestHost = 255;  // of a host

std::optional<int32_t> number_at_key(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  int32_t number = 0;
  const auto [end, error] = std::from_chars(line.data() + at + key.size(), line.data() + line.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// "  host      : node3", behind any label.
std::optional<std::string> value_of(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string value(trim(line.substr(at + key.size())).substr(0, kLongestHost));
  return value.contains(',') || value.contains(' ') ? std::nullopt : std::optional(std::move(value));
}

/// "failed (exitcode: -9) local_rank: 3 (pid: 4711) of binary: /usr/bin/python3"
std::optional<TorchrunFailure> read_line(std::string_view line) {
  const size_t at = line.find("failed (exitcode: ");
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = line.substr(at);
  const auto exit_code = number_at_key(rest, "(exitcode: ");
  const auto local_rank = number_at_key(rest, "local_rank: ");
  const auto pid = number_at_key(rest, "(pid: ");
  if (!exit_code || !local_rank || !pid || *pid <= 0) {
    return std::nullopt;
  }
  return TorchrunFailure{std::nullopt,
                         text_of(EndedProcess{.local_rank = local_rank, .pid = *pid, .exit_code = *exit_code})};
}

}  // namespace

bool is_torchrun_failure(std::string_view line) {
  return line.find(kRootCause) != std::string_view::npos || read_line(line).has_value();
}

std::optional<TorchrunFailure> TorchrunFailures::take(std::string_view line) {
  if (auto failure = read_line(line)) {
    return failure;
  }
  const bool root = line.find(kRootCause) != std::string_view::npos;
  if (root || line.ends_with("Failures:")) {
    *this = TorchrunFailures();
    in_table_ = true;
    first_ = root;
    return std::nullopt;
  }
  if (!in_table_) {
    return std::nullopt;
  }
  if (line.ends_with("=====")) {
    in_table_ = false;
  } else if (auto time = value_of(line, "time      : ")) {
    time_ = std::move(*time);
  } else if (auto host = value_of(line, "host      : ")) {
    host_ = std::move(*host);
  } else if (const auto rank = number_at_key(line, "rank      : ")) {
    rank_ = rank;
    local_rank_ = number_at_key(line, "(local_rank: ");
  } else if (const auto exit_code = number_at_key(line, "exitcode  : ")) {
    const auto pid = number_at_key(line, "(pid: ");
    if (rank_ && *rank_ >= 0 && pid && *pid > 0) {
      return TorchrunFailure{rank_, text_of(EndedProcess{.first = first_,
                                                         .rank = rank_,
                                                         .local_rank = local_rank_,
                                                         .pid = *pid,
                                                         .exit_code = *exit_code,
                                                         .host = host_,
                                                         .time = time_})};
    }
  }
  return std::nullopt;
}

}  // namespace stalltrace::import
