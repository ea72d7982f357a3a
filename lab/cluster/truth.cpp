// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/truth.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace stalltrace::lab {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json optional(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Converts a text to a number if it is one.
Json plain(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc{} || rest != end) {
    return text;
  }
  const auto whole = static_cast<int64_t>(number);
  return static_cast<double>(whole) == number ? Json(whole) : Json(number);
}

Json run_json(const Truth& truth) {
  return {
      {"ranks", truth.options.ranks},
      {"ranks_per_node", truth.options.ranks_per_node},
      {"workload", truth.options.workload},
      {"workload_args", truth.options.workload_args},
      {"steps", truth.options.steps},
      {"link_mbit", optional(truth.options.link_mbit)},
      {"seed", truth.options.seed},
      {"trace", truth.options.trace},
      {"plugin", truth.options.plugin},
      {"job_id", truth.job_id},
      {"master", truth.master},
      {"started_ns", truth.started_ns},
      {"first_step_ns", truth.first_step_ns == 0 ? Json(nullptr) : Json(truth.first_step_ns)},
      {"ended_ns", truth.ended_ns},
      {"completed", truth.completed},
      {"problem", truth.problem},
  };
}

Json clock_json(const ClockTruth& clock) {
  return {{"at_ns", clock.at_ns}, {"error_ns", clock.error_ns}, {"drift_ppm", clock.drift_ppm}};
}

Json node_json(const NodeTruth& truth) {
  const std::optional<ExitStatus>& status = truth.rank.status;
  return {
      {"node", truth.node.name},
      {"netns", truth.node.netns},
      {"address", truth.node.address},
      {"address6", truth.node.address6},
      {"rank", truth.node.rank},
      {"pid", truth.rank.pid},
      {"steps", truth.rank.steps},
      {"exit_code", status ? optional(status->code) : Json(nullptr)},
      {"exit_signal", status ? optional(status->signal) : Json(nullptr)},
      {"ended_by_lab", truth.rank.ended_by_lab},
      {"agent_pid", truth.agent_pid == 0 ? Json(nullptr) : Json(truth.agent_pid)},
      {"recording", truth.agent_pid == 0 ? Json(nullptr) : Json(truth.node.name + ".db")},
      {"clock", truth.clock ? clock_json(*truth.clock) : Json(nullptr)},
  };
}

Json link_json(const FaultLink& link, const std::vector<NodeTruth>& nodes) {
  const auto node = [&](int rank) { return nodes.at(static_cast<size_t>(rank)).node.name; };
  return {{"src_rank", link.src_rank},
          {"dst_rank", link.dst_rank},
          {"src_node", node(link.src_rank)},
          {"dst_node", node(link.dst_rank)}};
}

Json fault_json(const FaultTruth& truth, const std::vector<NodeTruth>& nodes) {
  Json dose = Json::object();
  for (const auto& [name, value] : truth.spec.values) {
    dose[name] = plain(value);
  }
  Json details = Json::object();
  for (const auto& [name, value] : truth.details) {
    details[name] = plain(value);
  }
  Json intervals = Json::array();
  for (const TimeRange& interval : truth.intervals) {
    intervals.push_back({{"from_ns", interval.from_ns}, {"to_ns", interval.to_ns}});
  }
  const bool injected = !truth.intervals.empty();
  return {
      {"cause", truth.spec.cause},
      {"spec", truth.spec.text},
      {"rank", truth.rank},
      {"node", truth.node.empty() ? Json(nullptr) : Json(truth.node)},
      {"link", truth.link ? link_json(*truth.link, nodes) : Json(nullptr)},
      {"dose", dose},
      {"injected", injected},
      {"from_ns", injected ? Json(truth.intervals.front().from_ns) : Json(nullptr)},
      {"to_ns", injected ? Json(truth.intervals.back().to_ns) : Json(nullptr)},
      {"intervals", intervals},
      {"packets_dropped", optional(truth.packets_dropped)},
      {"details", details},
      {"commands", truth.commands},
  };
}

}  // namespace

std::string to_json(const Truth& truth) {
  Json nodes = Json::array();
  for (const NodeTruth& node : truth.nodes) {
    nodes.push_back(node_json(node));
  }
  Json faults = Json::array();
  for (const FaultTruth& fault : truth.faults) {
    faults.push_back(fault_json(fault, truth.nodes));
  }
  const Json root = {{"schema", Truth::kSchema}, {"run", run_json(truth)}, {"nodes", nodes}, {"faults", faults}};
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace stalltrace::lab
