// SPDX-License-Identifier: Apache-2.0
// The hosts that logs name, as nodes of a recording, and which process is which rank. Internal to import/nccl_log.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/nccl_log/survey.h"
#include "model/events.h"
#include "model/source.h"

namespace stalltrace::import {

struct LogNode {
  Node row;
  uint64_t numbers = 0;  // of event ids so far
  bool untimed = false;
  bool used = false;
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  int64_t last_ns = 0;
  std::map<std::string, uint64_t> losses;  // by source

  /// Something happened on it at this time.
  void see(int64_t time_ns);
  EventId next_event() { return make_event_id(row.node_id, ++numbers); }
};

class LogNodes {
 public:
  /// Ids depend on nothing but names and the files' times, so that one input gives one recording. The files must
  /// outlive the object.
  explicit LogNodes(const std::vector<LoggedFile>& files);
  LogNodes(const LogNodes&) = delete;
  LogNodes& operator=(const LogNodes&) = delete;

  /// The first node for a host that has none of its own.
  LogNode& of(std::string_view host);
  /// Of the file's first process.
  LogNode& of(const LoggedFile& file) {
    return of(file.processes.empty() ? std::string_view() : std::string_view(file.processes.front().host));
  }
  /// The newest file's time.
  [[nodiscard]] int64_t newest_ns() const { return newest_ns_; }
  /// Of exceptions of ranks of which no process is known.
  LogNode& nameless() { return *nameless_; }
  /// The process of a rank: the file's own, else the only one of all files; null: not known.
  [[nodiscard]] const LoggedProcess* process_of(const LoggedFile& file, int32_t rank) const;
  /// Delivers the nodes that were used, with their losses. Returns their number.
  size_t deliver(EventSink& sink);

 private:
  void find_processes(const std::vector<LoggedFile>& files);
  bool deliver(LogNode& node, EventSink& sink) const;

  int64_t newest_ns_ = 0;
  std::map<std::string, LogNode, std::less<>> nodes_;
  LogNode own_nameless_;
  LogNode* nameless_ = &own_nameless_;
  std::unordered_map<int32_t, const LoggedProcess*> process_of_rank_;  // of each rank that is one process only
};

}  // namespace stalltrace::import
