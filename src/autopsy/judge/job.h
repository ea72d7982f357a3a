// SPDX-License-Identifier: Apache-2.0
// The ranks of one job in the first and the last snapshot, and their texts. Internal to judge/. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "autopsy/judge/judge.h"
#include "autopsy/judge/peers.h"
#include "autopsy/snapshot.h"
#include "model/finding.h"

namespace stalltrace::autopsy {

class Job {
 public:
  /// Both snapshots hold the ranks of this job alone; `context` outlives the object.
  Job(Snapshot first, Snapshot last, const Context& context);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] const std::vector<RankState>& ranks() const { return last_.ranks; }
  /// The same process in the first snapshot; null if it was not there.
  [[nodiscard]] const RankState* before(size_t rank) const { return before_[rank]; }
  /// Processes of the first snapshot that the last one lacks.
  [[nodiscard]] const std::vector<RankState>& ended() const { return ended_; }
  [[nodiscard]] const std::vector<RankConnection>& connections() const { return connections_; }
  /// Those that carried at least the most of them divided by kBulkShare: where there are others, none that has
  /// heartbeats alone.
  [[nodiscard]] std::vector<const RankConnection*> main_connections() const;
  [[nodiscard]] const std::vector<OutsideConnection>& outside() const { return outside_; }
  [[nodiscard]] const Context& context() const { return context_; }
  /// The same socket in the first snapshot; null if it was not there.
  [[nodiscard]] const TcpSocket* before(size_t rank, const TcpSocket& socket) const;

  [[nodiscard]] int64_t watched_ns() const { return last_.taken_ns - first_.taken_ns; }
  /// From the first to the last snapshot, in UTC.
  [[nodiscard]] TimeRange watched_utc() const {
    return {first_.taken_ns + context_.utc_offset_ns, last_.taken_ns + context_.utc_offset_ns};
  }
  /// Of several hosts that were watched for different times, the longest; watched_ns() is the shortest.
  [[nodiscard]] int64_t longest_watched_ns() const;
  /// For how long no rank has sent or received data of another, except heartbeats; nullopt: no connection shows it.
  [[nodiscard]] std::optional<int64_t> silent_ns() const;
  /// How long the job has hung, at least.
  [[nodiscard]] int64_t hung_ns() const { return std::max(watched_ns(), silent_ns().value_or(0)); }

  [[nodiscard]] bool stopped(size_t rank) const { return ranks()[rank].run_state != RunState::kAlive; }
  /// It was inside one call in both snapshots, and runs.
  [[nodiscard]] bool waits(size_t rank) const;
  /// It runs, was outside of all calls in both, and does not get on.
  [[nodiscard]] bool is_outside(size_t rank) const;
  /// Between the two snapshots of its host it wrote or read at least kProgressBytesPerSecond on one connection with
  /// another rank. Bytes that lie in its sockets do not count, nor do connections that the first snapshot lacks.
  [[nodiscard]] bool exchanges_data(size_t rank) const { return exchanges_data_[rank]; }
  /// It does, or it made calls.
  [[nodiscard]] bool gets_on(size_t rank) const { return gets_on_[rank]; }

  /// "here" if one host was looked at; "on these 3 hosts"; "on gpu02", where others have no rank of this job.
  [[nodiscard]] std::string here() const;
  /// Whether ranks that no process has may be those of a job of another name, on another host.
  [[nodiscard]] bool may_be_elsewhere() const;
  /// Whether several hosts hold its ranks.
  [[nodiscard]] bool on_several_hosts() const { return hosts_.size() > 1; }
  /// Whether the hosts of these ranks were looked at in one moment: the times between their snapshots overlap.
  [[nodiscard]] bool together(std::span<const size_t> ranks) const;
  /// Limits the confidence of a finding that compares these ranks, and says why, unless they were seen together.
  void limit_confidence(Finding& finding, std::span<const size_t> ranks) const;
  /// Whether it is an address of a host that holds ranks of this job; with `node`, of that one.
  [[nodiscard]] bool has_address(const std::string& address, const std::string& node = {}) const;

  /// "rank 2 (host7, pid 4711)", "pid 4711 on host7"
  [[nodiscard]] std::string name(size_t rank) const;
  /// "rank 2", "pid 4711"
  [[nodiscard]] std::string short_name(size_t rank) const;
  /// "ranks 0, 1, 3", "rank 2"; of many the first few.
  [[nodiscard]] std::string names(std::span<const size_t> ranks) const;
  /// "ranks 0, 1 in all_reduce at train.py:88, rank 3 in barrier at train.py:99"
  [[nodiscard]] std::string where(std::span<const size_t> ranks) const;
  /// "in load_batch at data.py:212, reading FIFO /data/in"
  [[nodiscard]] std::string doing(size_t rank) const;
  [[nodiscard]] Culprit culprit(size_t rank) const;
  /// Ranks below world_size that no process had in either snapshot; empty where world_size is not known.
  [[nodiscard]] std::vector<int32_t> absent() const;
  [[nodiscard]] int32_t world_size() const;

  /// With this job's times; all else is the caller's.
  [[nodiscard]] Finding finding(Cause cause, Severity severity, double confidence) const;

 private:
  struct Times {
    int64_t first_ns = 0;
    int64_t last_ns = 0;
  };
  /// Of the rank's host: from its first to its last snapshot.
  [[nodiscard]] Times times_of(size_t rank) const;
  [[nodiscard]] bool made_calls(const RankState& rank) const;
  void find_who_gets_on();

  Snapshot first_;
  Snapshot last_;
  const Context& context_;
  std::vector<const RankState*> before_;
  std::vector<std::vector<const TcpSocket*>> sockets_before_;  // of each rank, by key_of()
  std::vector<RankState> ended_;
  std::set<std::string> hosts_;  // that hold its ranks
  std::vector<RankConnection> connections_;
  std::vector<OutsideConnection> outside_;
  std::vector<bool> exchanges_data_;  // of each rank
  std::vector<bool> gets_on_;         // of each rank
};

/// "all_reduce at train.py:88", "MPI_Allreduce"
std::string call_text(const RankState& rank);
/// "for at least 40 s", "for all of the 3 s that were watched"
std::string waited_text(const Job& job);
/// Ranks that wait in a call.
std::vector<size_t> waiting_ranks(const Job& job);
/// Adds where they wait.
void add_waiting(const Job& job, Finding& finding);
/// Addresses that connections lead to, that are none of the hosts that hold its ranks, and whose ends were not closed.
std::vector<std::string> foreign_addresses(const Job& job);

/// Of a job none of whose processes is left: nothing shows whether it ended as it should.
void judge_ended(const Job& job, JobVerdict& verdict);

// Each adds the findings of its kind.
void find_stopped(const Job& job, std::vector<Finding>& findings);
void find_dead(const Job& job, std::vector<Finding>& findings, std::vector<std::string>& notes);
void find_silent_links(const Job& job, std::vector<Finding>& findings);
void find_unread(const Job& job, std::vector<Finding>& findings);
void find_missing(const Job& job, std::vector<Finding>& findings);
/// Ranks wait in different calls.
void find_different_calls(const Job& job, std::vector<Finding>& findings);
/// Ranks wait, and the snapshots do not show why.
void find_unknown(const Job& job, std::vector<Finding>& findings);
/// How many calls each rank launched, by NCCL's RAS and by NCCL's communicators in the ranks' memory: evidence on ranks
/// that are blamed already; findings where ranks wait and the only one is `unknown`; else notes. Both count launches,
/// and in a job that runs a rank is behind for a moment as well.
void add_launch_counts(const Job& job, std::vector<Finding>& findings, std::vector<std::string>& notes);
/// How bad it is that others wait for a rank: one that is alive may still come.
Severity severity_of_wait(const Job& job);

/// Why the job progresses: "4 ranks ended 120 calls ..."; empty: it does not.
std::string progress_of(const Job& job);

}  // namespace stalltrace::autopsy
