// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/node_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "cli/config.h"
#include "fleet/resolve.h"

namespace stalltrace::cli {
namespace {

constexpr size_t kMostLines = 20;  // of nodes that failed, each with a line of its own

/// The others, by what is wrong with them.
std::map<std::string, std::string> by_reason(std::span<const fleet::FailedNode> failed) {
  std::map<std::string, std::string> nodes;
  for (const fleet::FailedNode& node : failed) {
    std::string& alike = nodes[node.error.what];
    alike += (alike.empty() ? "" : ", ") + node.node;
  }
  return nodes;
}

}  // namespace

std::vector<Flag> NodeFlags::flags() {
  std::vector<Flag> all{
      text_flag("--nodes", "LIST",
                "ask the nodes where 'stalltrace serve' runs: a:7700,b:7700, gpu[001-128], @FILE, slurm, config",
                &nodes_),
      duration_flag("--node-timeout", "how long a node may take", &limit_ns_),
      switch_flag("--require-all", "fail unless every node answers", &require_all_), client_.token_flag()};
  std::ranges::move(client_.certificate_flags(), std::back_inserter(all));
  return all;
}

void NodeFlags::ask_configured_unless_given() {
  if (!given()) {
    nodes_ = fleet::kConfigured;
  }
}

Result<NodeFlags::Target> NodeFlags::prepare(Console& console) const {
  Target target;
  ST_ASSIGN(target.client, client_.load());
  target.client.limit = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(limit_ns_));
  Config config;
  if (fleet::names_configured(nodes_)) {
    ST_ASSIGN(config, load_config(""));
  }
  ST_ASSIGN(target.nodes, fleet::parse_node_list(nodes_, config.nodes));
  const int64_t begin_ns = monotonic_now_ns();
  fleet::resolve(target.nodes, target.client.limit / 2);
  for (const fleet::SameNode& same : fleet::leave_out_same(target.nodes)) {
    console.note(fmt::format("asked once: {} is {}", same.left_out, same.kept));
  }
  const auto taken = std::chrono::nanoseconds(monotonic_now_ns() - begin_ns);
  target.client.limit -= std::chrono::floor<std::chrono::milliseconds>(taken);
  return target;
}

Status NodeFlags::judge(Console& console, std::span<const fleet::FailedNode> failed, size_t asked) const {
  const bool none = failed.size() == asked;
  const bool alike = std::ranges::all_of(
      failed, [&](const fleet::FailedNode& one) { return one.error.what == failed.front().error.what; });
  if (none && alike) {
    const Error& first = failed.front().error;
    // What is wrong with the question itself is one error of the user's.
    if (first.kind == ErrorKind::kUsage) {
      return std::unexpected(first);
    }
    const std::string all =
        asked > 1 ? fmt::format("none of {} answers; ", count_of(static_cast<int64_t>(asked), "node")) : "";
    return fail(fmt::format("{}{}: {}", all, failed.front().node, first.what), first.remedy);
  }
  const size_t lines = std::min(failed.size(), kMostLines);
  for (const fleet::FailedNode& node : failed.first(lines)) {
    console.note(fmt::format("not in this answer: {}: {}", node.node, node.error.what));
  }
  for (const auto& [reason, nodes] : by_reason(failed.subspan(lines))) {
    console.note(fmt::format("not in this answer either: {}: {}", nodes, reason));
  }
  if (none) {
    return fail(fmt::format("none of {} answers", count_of(static_cast<int64_t>(asked), "node")),
                "see above what is wrong with each");
  }
  if (require_all_ && !failed.empty()) {
    return fail(fmt::format("{} of {} did not answer", failed.size(), count_of(static_cast<int64_t>(asked), "node")),
                "leave out --require-all to do without them");
  }
  return {};
}

}  // namespace stalltrace::cli
