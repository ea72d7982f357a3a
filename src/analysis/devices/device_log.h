// SPDX-License-Identifier: Apache-2.0
// The kernel messages of a job's hosts, by device, and the job's processes that they name. Internal to
// analysis/devices.
#pragma once

#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// A process of the job that a kernel message names.
struct NamedRank {
  std::string node;
  int32_t rank = 0;
  int32_t pid = 0;
  bool by_pid_alone = false;  // the log names no host
};

struct DeviceLog {
  std::string host;    // the log's node
  std::string device;  // "0000:3b:00"
  bool timed = true;
  std::vector<KernelMessage> messages;  // in the job's time, as far as that is known
};

class DeviceLogs {
 public:
  static Result<DeviceLogs> read(EventSource& source, const Report& report);

  [[nodiscard]] int64_t count() const { return std::ssize(logs_); }  // of hosts, or of files that name none
  [[nodiscard]] TimeRange range() const { return range_; }           // of all messages
  [[nodiscard]] const std::vector<DeviceLog>& devices() const { return devices_; }
  /// Messages about processes that were ended, with the name of their log's node.
  [[nodiscard]] const std::vector<std::pair<std::string, KernelMessage>>& ended() const { return ended_; }
  /// None if no process of a rank has that number on that host.
  [[nodiscard]] std::optional<NamedRank> rank_of(const KernelMessage& message) const;
  /// True if the job's evidence shows the host; none if it shows no hosts.
  [[nodiscard]] std::optional<bool> in_job(const std::string& host) const;
  [[nodiscard]] int64_t outside() const { return outside_; }                        // messages before or after the job
  [[nodiscard]] const std::vector<std::string>& silent() const { return silent_; }  // logs without any message

 private:
  Status read_states(EventSource& source, const Report& report);
  void take(const KernelMessage& row);

  std::map<NodeId, Node> logs_;
  std::map<std::pair<std::string, int32_t>, NamedRank> by_host_;  // short host name and pid
  std::map<int32_t, std::vector<NamedRank>> by_pid_;
  std::set<std::string> job_hosts_;  // short names
  std::optional<TimeRange> job_;
  std::map<std::pair<NodeId, std::string>, size_t> index_;
  std::set<NodeId> spoke_;
  std::vector<DeviceLog> devices_;
  std::vector<std::pair<std::string, KernelMessage>> ended_;
  std::vector<std::string> silent_;
  int64_t outside_ = 0;
  TimeRange range_{0, 0};
};

}  // namespace stalltrace::analysis
