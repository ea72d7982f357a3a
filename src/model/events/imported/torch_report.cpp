// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/torch_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace stalltrace {
namespace {

constexpr std::string_view kMismatch = "Detected mismatch between collectives on ranks. Rank ";
constexpr std::string_view kRunning = " is running collective: CollectiveFingerPrint(";
constexpr std::string_view kUnused = "Parameters which did not receive grad for rank ";
constexpr std::string_view kBarrier = " failed to pass monitoredBarrier in ";
constexpr size_t kMostRanks = 1024;

/// Takes a number from the beginning.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

std::optional<int32_t> take_rank(std::string_view& text) {
  const auto number = take_number(text);
  return number && *number < (1 << 24) ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

/// What follows `key` up to one of `ends`.
std::string_view value_of(std::string_view text, std::string_view key, std::string_view ends) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view value = text.substr(at + key.size());
  return value.substr(0, value.find_first_of(ends));
}

TorchFingerprint read_fingerprint(std::string_view text) {
  TorchFingerprint out;
  std::string_view number = value_of(text, "SequenceNumber=", ", )");
  out.number = take_number(number);
  out.op = value_of(text, "OpType=", ", )");
  if (const size_t shape = text.find("TensorShape=["); shape != std::string_view::npos) {
    const size_t close = text.find(']', shape);
    out.shape = close == std::string_view::npos ? std::string_view() : text.substr(shape + 12, close - shape - 11);
  }
  out.dtypes = value_of(text, "TensorDtypes=", ",)");
  return out;
}

std::optional<TorchReport> read_mismatch(std::string_view text) {
  TorchReport report{.kind = TorchReport::Kind::kMismatch, .text = text};
  std::string_view rest = text.substr(kMismatch.size());
  for (int i = 0; i < 2; ++i) {
    const auto rank = take_rank(rest);
    if (!rank || !rest.starts_with(kRunning)) {
      return std::nullopt;
    }
    rest.remove_prefix(kRunning.size());
    constexpr std::string_view kNext = ", but Rank ";
    const size_t next = i == 0 ? rest.find(kNext) : rest.size();
    if (next == std::string_view::npos) {
      return std::nullopt;
    }
    report.ranks.push_back(*rank);
    report.fingerprints.push_back(read_fingerprint(rest.substr(0, next)));
    rest.remove_prefix(i == 0 ? next + kNext.size() : next);
  }
  const bool named = !report.fingerprints[0].op.empty() && !report.fingerprints[1].op.empty();
  return named && report.ranks[0] != report.ranks[1] ? std::optional(std::move(report)) : std::nullopt;
}

std::optional<TorchReport> read_unused(std::string_view text) {
  std::string_view rest = text.substr(kUnused.size());
  const auto rank = take_rank(rest);
  if (!rank || !rest.starts_with(": ")) {
    return std::nullopt;
  }
  rest.remove_prefix(2);
  rest = rest.substr(0, rest.find(" Parameter indices"));
  while (rest.ends_with(' ')) {
    rest.remove_suffix(1);
  }
  if (rest.empty()) {
    return std::nullopt;
  }
  return TorchReport{.kind = TorchReport::Kind::kUnusedParameters,
                     .ranks = {*rank},
                     .fingerprints = {},
                     .parameters = rest,
                     .text = text};
}

/// "Rank 1", "Ranks 1, 2" before the sentence.
std::optional<TorchReport> read_barrier(std::string_view line, size_t at) {
  constexpr size_t kLongestList = 8192;
  const std::string_view before = line.substr(0, at).substr(at - std::min(at, kLongestList));
  const size_t word = before.rfind("Rank");
  if (word == std::string_view::npos) {
    return std::nullopt;
  }
  TorchReport report{.kind = TorchReport::Kind::kBarrier};
  report.text = line.substr(at - before.size() + word);
  std::string_view list = before.substr(word + 4);
  list.remove_prefix(list.starts_with('s') ? 1 : 0);
  while (report.ranks.size() < kMostRanks) {
    while (list.starts_with(' ') || list.starts_with(',')) {
      list.remove_prefix(1);
    }
    const auto rank = take_rank(list);
    if (!rank) {
      break;
    }
    report.ranks.push_back(*rank);
  }
  return list.empty() && !report.ranks.empty() ? std::optional(std::move(report)) : std::nullopt;
}

}  // namespace

Operation operation_of_torch(std::string_view type) {
  // The first that the type contains: a longer name stands before those inside of it.
  constexpr std::array<std::pair<std::string_view, Operation>, 11> kTypes{
      {{"REDUCE_SCATTER", Operation::kReduceScatter},
       {"ALLREDUCE", Operation::kAllReduce},
       {"ALLGATHER", Operation::kAllGather},
       {"ALLTOALL", Operation::kAllToAll},
       {"BROADCAST", Operation::kBroadcast},
       {"BARRIER", Operation::kBarrier},
       {"GATHER", Operation::kGather},
       {"SCATTER", Operation::kScatter},
       {"REDUCE", Operation::kReduce},
       {"SEND", Operation::kSend},
       {"RECV", Operation::kRecv}}};
  const auto* const known =
      std::ranges::find_if(kTypes, [&](const auto& one) { return type.find(one.first) != std::string_view::npos; });
  return known == kTypes.end() ? Operation::kGroup : known->second;
}

std::optional<TorchReport> read_torch_report(std::string_view line) {
  if (const size_t at = line.find(kMismatch); at != std::string_view::npos) {
    return read_mismatch(line.substr(at));
  }
  if (const size_t at = line.find(kUnused); at != std::string_view::npos) {
    return read_unused(line.substr(at));
  }
  const size_t at = line.find(kBarrier);
  return at == std::string_view::npos ? std::nullopt : read_barrier(line, at);
}

}  // namespace stalltrace
