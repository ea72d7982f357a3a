// SPDX-License-Identifier: Apache-2.0
// The participants: the ranks of the recording, their communicators, and one common clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analysis/timeline/clock.h"
#include "analysis/timeline/clock_offsets/kernel_clocks.h"
#include "model/node_clock.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Index of a process that takes part in collectives.
using MemberIndex = uint16_t;
inline constexpr MemberIndex kNoMember = 0xffff;
/// Index of a job attempt (timeline/attempts/attempts.h).
using AttemptIndex = uint16_t;
inline constexpr AttemptIndex kNoAttempt = 0xffff;

struct Member {
  NodeId node_id = 0;
  std::string node;
  int32_t pid = 0;
  std::optional<int32_t> rank;  // in the whole job
  bool rank_from_launcher = false;
  std::optional<int32_t> world_size;
  std::string job_id;
  std::string program;  // base name of the executable
  std::optional<int64_t> start_ns;
  std::optional<int64_t> exit_ns;
  std::optional<int32_t> exit_code;
  std::optional<int32_t> exit_signal;
  bool oom_killed = false;
  AttemptIndex attempt = kNoAttempt;

  /// True if it failed or was killed without a request to end.
  [[nodiscard]] bool ended_badly() const;
  /// "was ended by signal 9 (SIGKILL)", "ended with exit code 1"; `by_itself` is inserted after "ended".
  [[nodiscard]] std::string how_it_ended(std::string_view by_itself = {}) const;
};

class Cluster {
 public:
  static Result<Cluster> load(EventSource& source);

  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  [[nodiscard]] const Member& member(MemberIndex index) const { return members_[index]; }
  /// All recorded processes, including those that take no part.
  [[nodiscard]] const std::vector<Process>& processes() const { return processes_; }
  /// The member for a process, created on its first use; kNoMember if the index space is full.
  MemberIndex join(NodeId node, int32_t pid);
  [[nodiscard]] MemberIndex find(NodeId node, int32_t pid) const;

  /// Renumbers the members from `first` on: `order` has their old numbers in the new order.
  void reorder_members(MemberIndex first, const std::vector<MemberIndex>& order);

  /// `attempts`: one per member. Members that join later have none.
  void set_attempts(const std::vector<AttemptIndex>& attempts);
  [[nodiscard]] size_t attempts() const { return attempts_; }
  [[nodiscard]] AttemptIndex attempt_of(MemberIndex index) const {
    return index == kNoMember ? kNoAttempt : members_[index].attempt;
  }

  [[nodiscard]] const std::vector<Communicator>& communicators() const { return communicators_; }
  /// The communicator that a call names, or null. A pointer means the newest communicator created there before
  /// `time_ns`.
  [[nodiscard]] const Communicator* communicator(NodeId node, int32_t pid, uint64_t comm_ptr, CommHash hash) const;
  [[nodiscard]] bool destroyed(NodeId node, int32_t pid, uint64_t comm_ptr, CommHash hash) const;

  /// What is recorded of the process that is not traced and had this number in `time`, on the common clock; null if
  /// that is none, or if several had it.
  [[nodiscard]] const Competitor* competitor(NodeId node, int32_t pid, TimeRange time) const;
  /// True for a process of the job, a descendant of one, or the tracer, by pid (or thread id) or by name. Who ever had
  /// the number counts.
  [[nodiscard]] bool belongs(NodeId node, int32_t pid, const std::string& name) const;
  void add_thread(NodeId node, int32_t tid) { threads_.insert(key_of(node, tid)); }

  [[nodiscard]] const Clock& clock() const { return clock_; }
  /// To be called before the calls are read.
  void set_measured_clocks(std::vector<MeasuredClock> clocks) { measured_clocks_ = std::move(clocks); }
  [[nodiscard]] const std::vector<MeasuredClock>& measured_clocks() const { return measured_clocks_; }
  /// What the kernels of several hosts report of their clocks; by Clock::host().
  [[nodiscard]] const KernelClocks& kernel_clocks() const { return kernel_clocks_; }
  /// Moves its times to the common clock that `bounds` give.
  void align(const OffsetBounds& bounds);
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] std::string node_name(NodeId node) const;
  /// "rank 2 (node2, pid 4711)", with the parts that are known.
  [[nodiscard]] std::string describe(MemberIndex index) const;

 private:
  static uint64_t key_of(NodeId node, int32_t id) {
    return static_cast<uint64_t>(node) << 32 | static_cast<uint32_t>(id);
  }
  void derive_split_ranks();
  void take_ranks_from_communicators();

  std::vector<Node> nodes_;
  Clock clock_;
  std::vector<MeasuredClock> measured_clocks_;
  KernelClocks kernel_clocks_;
  std::vector<Process> processes_;
  std::vector<Member> members_;
  size_t attempts_ = 0;
  std::unordered_map<uint64_t, MemberIndex> index_;  // by key_of node and pid, like the next one
  std::unordered_map<uint64_t, size_t> process_index_;
  std::unordered_map<uint64_t, std::vector<Competitor>> competitors_;  // by start
  std::unordered_set<uint64_t> threads_;
  std::unordered_set<std::string>
      thread_names_;  // what a member's threads are called if its program does not name them
  std::unordered_map<NodeId, size_t> node_index_;
  std::vector<Communicator> communicators_;
  std::map<std::tuple<NodeId, int32_t, uint64_t>, std::vector<size_t>> communicator_index_;
};

}  // namespace stalltrace::analysis
