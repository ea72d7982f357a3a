// SPDX-License-Identifier: Apache-2.0
// Which rank of the job a member of a part of it is. A communicator that NCCL's hash names numbers its own members; of
// them this host knows
//   - those that are processes here: the job's rank is the process's;
//   - those at an address that the job's own communicator has shown to be a rank's, where each rank has a host for
//     itself: an address is of one host only.
// What is claimed twice, and differently, is nobody's. Pure; one thread.
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

  /// The job's own communicator `world` has a host for each rank, and this address is of that rank's.
  void host(uint64_t world, const std::string& address, int32_t rank);
  [[nodiscard]] std::optional<int32_t> rank_at(uint64_t world, const std::string& address) const;

  /// The job's own communicator of a process here.
  void world(int32_t pid, uint64_t world) { worlds_[pid] = world; }
  [[nodiscard]] std::optional<uint64_t> world_of(int32_t pid) const;

 private:
  std::map<std::pair<uint64_t, int32_t>, int32_t> processes_;  // by communicator and rank
  std::map<std::pair<uint64_t, std::string>, int32_t> hosts_;  // rank, by the job and address
  std::map<int32_t, uint64_t> worlds_;                         // by process
};

}  // namespace stalltrace::capture
