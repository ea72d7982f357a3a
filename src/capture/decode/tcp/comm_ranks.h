// SPDX-License-Identifier: Apache-2.0
// Translates ranks of a sub-communicator into ranks of the job. A communicator that is known by NCCL's hash numbers its
// own members. Of them this host knows
// - those that are processes here: the job's rank is the process's;
// - those at an address that the job's own communicator has shown to be a rank's, where each rank has a host for
//   itself, so that an address belongs to one rank only.
// Conflicting claims leave the rank unknown. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace stalltrace::capture {

class CommRankMap {
 public:
  /// The process here is this rank of the communicator.
  void member(uint64_t comm, int32_t rank, int32_t pid);
  [[nodiscard]] std::optional<int32_t> process_of(uint64_t comm, int32_t rank) const;
  void forget_process(int32_t pid);
  /// No process is left that anything is known of.
  [[nodiscard]] bool empty() const { return processes_.empty() && worlds_.empty(); }

  /// Reports that rank `rank` of the job's own communicator `world`, which has one host per rank, is at this address.
  void host(uint64_t world, const std::string& address, int32_t rank);
  [[nodiscard]] std::optional<int32_t> rank_at(uint64_t world, const std::string& address) const;

  /// Reports the job's own communicator of a process on this host.
  void world(int32_t pid, uint64_t world) { worlds_[pid] = world; }
  [[nodiscard]] std::optional<uint64_t> world_of(int32_t pid) const;

 private:
  std::map<std::pair<uint64_t, int32_t>, int32_t> processes_;  // by communicator and rank
  std::map<std::pair<uint64_t, std::string>, int32_t> hosts_;  // rank, by the job and address
  std::map<int32_t, uint64_t> worlds_;                         // by process
};

}  // namespace stalltrace::capture
