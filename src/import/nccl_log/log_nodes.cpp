// SPDX-License-Identifier: Apache-2.0
#include "import/nccl_log/log_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

constexpr size_t kMostNodes = 8192;

}  // namespace

void LogNode::see(int64_t time_ns) {
  used = true;
  first_ns = std::min(first_ns, time_ns);
  last_ns = std::max(last_ns, time_ns);
}

LogNodes::LogNodes(const std::vector<LoggedFile>& files) {
  for (const LoggedFile& file : files) {
    newest_ns_ = std::max(newest_ns_, file.modified_ns);
    for (const LoggedProcess& process : file.processes) {
      if (nodes_.size() < kMostNodes) {
        nodes_.try_emplace(process.host);
      }
    }
  }
  if (nodes_.empty()) {
    nameless_ = &nodes_.try_emplace("log").first->second;  // only PyTorch or Python spoke
  }
  std::set<NodeId> taken;
  const auto name_node = [&](const std::string& name, LogNode& node) {
    node.row.name = name;
    node.row.agent_version = "nccl_log";
    NodeId id = make_node_id(name, "nccl_log", newest_ns_);
    while (!taken.insert(id).second) {
      id = id % ((1U << kNodeIdBits) - 1) + 1;
    }
    node.row.node_id = id;
  };
  for (auto& [name, node] : nodes_) {
    name_node(name, node);
    node.row.hostname = name;
  }
  name_node("exceptions", own_nameless_);
  find_processes(files);
}

/// The process of each rank that is one process only, for lines that name the rank alone.
void LogNodes::find_processes(const std::vector<LoggedFile>& files) {
  std::set<int32_t> several;  // as in the logs of two attempts of a job
  for (const LoggedFile& file : files) {
    for (const LoggedProcess& process : file.processes) {
      if (!process.rank || process.left_out) {
        continue;
      }
      const auto [known, fresh] = process_of_rank_.try_emplace(*process.rank, &process);
      if (!fresh && (known->second->pid != process.pid || known->second->host != process.host)) {
        several.insert(*process.rank);
      }
    }
  }
  std::erase_if(process_of_rank_, [&](const auto& known) { return several.contains(known.first); });
}

const LoggedProcess* LogNodes::process_of(const LoggedFile& file, int32_t rank) const {
  const LoggedProcess* own = nullptr;
  for (const LoggedProcess& process : file.processes) {
    if (process.rank == rank && !process.left_out) {
      if (own != nullptr) {
        own = nullptr;
        break;
      }
      own = &process;
    }
  }
  const auto known = process_of_rank_.find(rank);
  return own != nullptr ? own : known == process_of_rank_.end() ? nullptr : known->second;
}

LogNode& LogNodes::of(std::string_view host) {
  const auto found = nodes_.find(host);
  return found != nodes_.end() ? found->second : nodes_.begin()->second;
}

size_t LogNodes::deliver(EventSink& sink) {
  size_t delivered = 0;
  for (auto& [name, node] : nodes_) {
    delivered += deliver(node, sink) ? 1 : 0;
  }
  return delivered + (deliver(own_nameless_, sink) ? 1 : 0);
}

bool LogNodes::deliver(LogNode& node, EventSink& sink) const {
  if (!node.used) {
    return false;
  }
  node.row.missing_evidence = kLacksDurations;
  if (&node == nameless_) {
    node.row.missing_evidence += fmt::format(" {}", kLacksPids);
  }
  if (node.untimed) {
    node.row.missing_evidence += fmt::format(" {}", kLacksTimes);
  }
  node.row.started_ns = std::min(node.first_ns, node.last_ns);
  node.row.ended_ns = node.last_ns;
  sink.accept(node.row);
  for (const auto& [source, count] : node.losses) {
    if (count > 0) {
      sink.accept(Loss{node.row.node_id, source, count});
    }
  }
  return true;
}

}  // namespace stalltrace::import
