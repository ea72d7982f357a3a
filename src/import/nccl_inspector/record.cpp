// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_inspector/record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "import/json.h"

namespace stalltrace::import {
namespace {

constexpr int64_t kLatestUs = 4'000'000'000'000'000;         // October 2096
constexpr int64_t kLongestUs = int64_t{86'400} * 1'000'000;  // of a call
constexpr int64_t kMostNumber = int64_t{1} << 40;
constexpr int64_t kMostBytes = int64_t{1} << 50;
constexpr size_t kLongestHost = 255;

constexpr std::array<std::pair<std::string_view, Operation>, 10> kOperations{{
    {"AllReduce", Operation::kAllReduce},
    {"AllGather", Operation::kAllGather},
    {"ReduceScatter", Operation::kReduceScatter},
    {"Broadcast", Operation::kBroadcast},
    {"Reduce", Operation::kReduce},
    {"AlltoAll", Operation::kAllToAll},
    {"Gather", Operation::kGather},
    {"Scatter", Operation::kScatter},
    {"Send", Operation::kSend},
    {"Recv", Operation::kRecv},
}};

class Reader {
 public:
  Reader(const ValueTree& tree, ValueIndex top) : tree_(tree), top_(top) {}

  std::optional<InspectorRecord> read() const {
    const ValueIndex header = tree_.find(top_, "header");
    const ValueIndex metadata = tree_.find(top_, "metadata");
    const ValueIndex collective = tree_.find(top_, "coll_perf");
    const bool pair = collective == kNoValue;
    const ValueIndex call = pair ? tree_.find(top_, "p2p_perf") : collective;
    const std::string_view prefix = pair ? "p2p" : "coll";
    const auto key = [&](std::string_view name) { return std::string(prefix) + std::string(name); };
    const auto rank = within(tree_.find(header, "rank"), 1 << 24);
    const auto nranks = within(tree_.find(header, "n_ranks"), 1 << 24);
    const auto comm = hash(tree_.text(tree_.find(header, "id")));
    const auto number = within(tree_.find(call, key("_sn")), kMostNumber);
    const auto duration_us = within(tree_.find(call, key("_exec_time_us")), kLongestUs);
    const auto dumped_us = within(tree_.find(metadata, "dump_timestamp_us"), kLatestUs);
    if (!rank || !nranks || *rank >= *nranks || !comm || !number || !duration_us || !dumped_us) {
      return std::nullopt;
    }
    InspectorRecord out{.comm = *comm, .rank = static_cast<int32_t>(*rank), .nranks = static_cast<int32_t>(*nranks)};
    out.host = tree_.text(tree_.find(metadata, "hostname")).substr(0, kLongestHost);
    out.pid =
        static_cast<int32_t>(within(tree_.find(metadata, "pid"), std::numeric_limits<int32_t>::max()).value_or(0));
    out.dumped_ns = *dumped_us * kNsPerUs;
    const std::string_view name = tree_.text(tree_.find(call, prefix));
    const auto* const known = std::ranges::find(kOperations, name, &std::pair<std::string_view, Operation>::first);
    out.op = known == kOperations.end() ? std::nullopt : std::optional(known->second);
    out.number = *number;
    out.duration_ns = *duration_us * kNsPerUs;
    out.bytes = within(tree_.find(call, key("_msg_size_bytes")), kMostBytes).value_or(0);
    const std::string_view source = tree_.text(tree_.find(call, key("_timing_source")));
    out.by_device = source.empty() || source == "kernel_gpu";
    if (const auto peer = within(tree_.find(call, "p2p_peer"), 1 << 24)) {
      out.peer = static_cast<int32_t>(*peer);
    }
    for (const ValueIndex channel : tree_.items(tree_.find(tree_.find(call, "event_trace_ts"), "kernel_events"))) {
      if (const auto us = within(tree_.find(channel, "kernel_start_ts"), kLatestUs); us && *us > 0) {
        out.started_ns = std::min(out.started_ns.value_or(kLatestUs * kNsPerUs), *us * kNsPerUs);
      }
    }
    return out;
  }

 private:
  std::optional<int64_t> within(ValueIndex value, int64_t most) const {
    const auto number = tree_.integer(value);
    return number && *number >= 0 && *number < most ? number : std::nullopt;
  }

  static std::optional<CommHash> hash(std::string_view text) {
    CommHash value = 0;
    if (!text.starts_with("0x")) {
      return std::nullopt;
    }
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
    return error == std::errc() && end == text.data() + text.size() && value != 0 ? std::optional(value) : std::nullopt;
  }

  const ValueTree& tree_;
  ValueIndex top_;
};

}  // namespace

bool is_inspector_line(std::string_view line) {
  return line.starts_with('{') && line.find("\"header\"") != std::string_view::npos &&
         (line.find("\"coll_perf\"") != std::string_view::npos || line.find("\"p2p_perf\"") != std::string_view::npos);
}

std::optional<InspectorRecord> read_inspector_line(std::string_view line) {
  if (!is_inspector_line(line)) {
    return std::nullopt;
  }
  ValueTree tree;
  const Result<ValueIndex> top = read_json(line, tree);
  return top ? Reader(tree, *top).read() : std::nullopt;
}

}  // namespace stalltrace::import
