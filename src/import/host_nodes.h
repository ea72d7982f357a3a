// SPDX-License-Identifier: Apache-2.0
// Files whose lines name hosts: each host is a node, whatever the number of its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "import/file_node.h"
#include "model/events.h"

namespace stalltrace::import {

/// `More`: what an import knows of a node beside its row and losses.
template <typename More>
class HostNodes {
 public:
  static constexpr size_t kMostHosts = 8192;
  struct State : More {
    Node row;
    std::map<std::string, uint64_t> losses;  // by source
  };

  explicit HostNodes(std::string format) : format_(std::move(format)) {}

  /// The node of a host; without a name, or beyond kMostHosts, that of the file. References stay valid.
  State& of(const std::string& path, const std::string& host) {
    const bool named = !host.empty() && (nodes_.size() < kMostHosts || nodes_.contains(host));
    const auto [found, is_new] = nodes_.try_emplace(named ? host : path);
    if (is_new) {
      found->second.row = file_nodes_.make(path, format_, named ? host : "");
    }
    return found->second;
  }

  /// By name.
  std::map<std::string, State>& all() { return nodes_; }

  /// Gives the sink all nodes and their losses.
  void deliver(EventSink& sink) {
    for (auto& [name, state] : nodes_) {
      for (const auto& [source, count] : state.losses) {
        sink.accept(Loss{state.row.node_id, source, count});
      }
      sink.accept(state.row);
    }
  }

 private:
  std::string format_;
  FileNodes file_nodes_;
  std::map<std::string, State> nodes_;
};

}  // namespace stalltrace::import
