// SPDX-License-Identifier: Apache-2.0
#include "analysis/devices/device_log.h"

#include <algorithm>

#include "analysis/thresholds/devices.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::analysis {
namespace {

constexpr std::string_view kKernelLog = "kernel_log";  // Node::agent_version of import/kernel_log

/// A log has "node3" where another has "node3.cluster.local".
std::string short_name(std::string_view host) { return std::string(host.substr(0, host.find('.'))); }

/// AER names a function, "0000:3b:00.0", an Xid the device.
std::string without_function(std::string_view device) {
  return std::string(device.ends_with(".0") ? device.substr(0, device.size() - 2) : device);
}

}  // namespace

Result<DeviceLogs> DeviceLogs::read(EventSource& source, const Report& report) {
  DeviceLogs logs;
  ST_TRY(logs.read_states(source, report));
  if (logs.logs_.empty()) {
    return logs;
  }
  ST_TRY(source.kernel_messages({}, [&](const KernelMessage& row) { logs.take(row); }));
  for (const auto& [id, node] : logs.logs_) {
    if (!logs.spoke_.contains(id)) {
      logs.silent_.push_back(node.name);
    }
  }
  return logs;
}

Status DeviceLogs::read_states(EventSource& source, const Report& report) {
  ST_ASSIGN(const std::vector<Node> nodes, source.nodes());
  std::map<NodeId, const Node*> others;
  bool timed = true;
  for (const Node& node : nodes) {
    if (node.agent_version == kKernelLog) {
      logs_.emplace(node.node_id, node);
      continue;
    }
    others.emplace(node.node_id, &node);
    timed = timed && !lacks(node, kLacksTimes);
  }
  if (logs_.empty()) {
    return {};
  }
  if (report.collectives > 0 && timed) {
    job_ = report.range;
  }
  ST_ASSIGN(const std::vector<Process> processes, source.processes());
  for (const Process& process : processes) {
    const auto node = others.find(process.node_id);
    if (node == others.end() || lacks(*node->second, kLacksPids)) {
      continue;
    }
    const std::string host = short_name(node->second->hostname.empty() ? node->second->name : node->second->hostname);
    job_hosts_.insert(host);
    if (process.rank) {
      const NamedRank rank{node->second->name, *process.rank, process.pid};
      by_host_[{host, process.pid}] = rank;
      by_pid_[process.pid].push_back(rank);
    }
  }
  return {};
}

void DeviceLogs::take(const KernelMessage& row) {
  const auto node = logs_.find(row.node_id);
  if (node == logs_.end()) {
    return;
  }
  spoke_.insert(row.node_id);
  range_.from_ns = range_.to_ns == 0 ? row.timestamp_ns : std::min(range_.from_ns, row.timestamp_ns);
  range_.to_ns = std::max(range_.to_ns, row.timestamp_ns);
  const bool timed = !lacks(node->second, kLacksTimes);
  if (job_ && timed) {
    const int64_t slack_ns = kDeviceSlackNs + (lacks(node->second, kLacksTimeZone) ? kLargestTimeZoneNs : 0);
    if (row.timestamp_ns < job_->from_ns - slack_ns || row.timestamp_ns > job_->to_ns + slack_ns) {
      ++outside_;
      return;
    }
  }
  if (row.kind == KernelMessageKind::kOutOfMemory) {
    ended_.emplace_back(node->second.name, row);
    return;
  }
  const std::string device = without_function(row.device);
  const auto [found, is_new] = index_.try_emplace({row.node_id, device}, devices_.size());
  if (is_new) {
    devices_.push_back({node->second.name, device, timed, {}});
  }
  devices_[found->second].messages.push_back(row);
}

std::optional<NamedRank> DeviceLogs::rank_of(const KernelMessage& message) const {
  const auto node = logs_.find(message.node_id);
  if (message.pid <= 0 || node == logs_.end()) {
    return std::nullopt;
  }
  if (!node->second.hostname.empty()) {
    const auto found = by_host_.find({short_name(node->second.hostname), message.pid});
    return found == by_host_.end() ? std::nullopt : std::optional(found->second);
  }
  const auto found = by_pid_.find(message.pid);
  if (found == by_pid_.end() || found->second.size() != 1) {
    return std::nullopt;
  }
  NamedRank rank = found->second.front();
  rank.by_pid_alone = true;
  return rank;
}

std::optional<bool> DeviceLogs::in_job(const std::string& host) const {
  return job_hosts_.empty() ? std::nullopt : std::optional(job_hosts_.contains(short_name(host)));
}

}  // namespace stalltrace::analysis
