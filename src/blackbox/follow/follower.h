// SPDX-License-Identifier: Apache-2.0
// Follows the profiler files of this host while they grow: finds them, reads new events in bounded rounds, and passes
// them to the pairing. A file of a process that had already ended is read too, and its process gets a row. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "blackbox/follow/finder.h"
#include "blackbox/liveness.h"
#include "blackbox/losses.h"
#include "blackbox/pairing/call_pairing.h"
#include "blackbox/session.h"
#include "model/process_registry.h"

namespace stalltrace::blackbox {

class ProfilerFollower {
 public:
  using Note = std::function<void(const std::string& text)>;
  /// Interval between reads of a file's open events.
  static constexpr int64_t kReadOpenNs = kNsPerSecond;
  /// An open operation that has waited this long is delivered.
  static constexpr int64_t kOpenWaitNs = 200 * kNsPerMs;
  /// Rows of steps that one round delivers of a file: the longest.
  static constexpr size_t kStepsAtOnce = 500;

  /// All references must outlive the follower; `sink` gets processes and losses.
  ProfilerFollower(const Node& node, const Procfs& procfs, ProfilerFileFinder::Scope scope, ProcessRegistry& processes,
                   CallPairing& pairing, EventSink& sink, Note note);

  void add_process(pid_t pid, uint32_t user) { finder_.add_process(pid, user); }
  /// The process has ended: its file will be read to the end.
  void end_process(pid_t pid);
  /// One round; call it twice a second. Reads 8,192 records of each file, then more while the round has taken less than
  /// 100 ms; open events once a second. Probe rows from before `probes_read_ns` (CLOCK_MONOTONIC) must have been passed
  /// to the pairing; calls that began later wait for the next round.
  void round(int64_t probes_read_ns);
  /// Reads the rest for at most a second, and delivers waiting rows. Unread records are counted as losses.
  void finish(int64_t probes_read_ns);
  /// Delivers the losses so far of the files, this object, and the pairing.
  void deliver_losses();
  /// Number of hosts of the communicator's ranks, as NCCL reported it to the process; 0 unknown.
  [[nodiscard]] int32_t nodes_of(int32_t pid, uint64_t nccl_comm_hash) const;

 private:
  enum class State {
    kAlive,
    kEnded,  // since the file was found
    kGone,   // before the file was found
    kUnreadable,
  };
  struct FollowedFile {
    ProfilerSession session;
    Owner owner;
    uint32_t user = 0;
    State state = State::kAlive;
    int64_t read_ns = 0;            // CLOCK_MONOTONIC; when it was read last
    int64_t not_alive_ns = 0;       // when it was first read after its process had ended; 0: not yet
    std::optional<Process> gone{};  // its row, if the process had ended when its file was found
    bool numbers_differ = false;    // threads have other numbers in the process's own pid namespace
    int64_t open_read_ns = 0;       // time of the last read of open parts
    std::map<uint64_t, std::pair<int64_t, int32_t>> reported_waits;  // by operation: start and step
    uint64_t most_left_out_waits = 0;                                // in one read
    std::map<pid_t, pid_t> threads;                                  // number in its namespace → number here
    int64_t threads_read_ns = 0;
    [[nodiscard]] bool is_alive() const { return state == State::kAlive; }
    [[nodiscard]] bool is_done() const;
    [[nodiscard]] bool is_behind() const { return state != State::kUnreadable && !session.drained(); }
  };
  /// Identifies one file among all that were ever written on this host since it started.
  struct FileKey {
    uint64_t pid_namespace = 0;
    uint32_t pid = 0;
    uint64_t created_ns = 0;
    bool operator==(const FileKey&) const = default;
  };
  /// A process whose file was read to the end.
  struct ClosedProcess {
    FileKey file;
    int32_t pid = 0;
    uint32_t user = 0;
    ProcessActivity activity;
    std::optional<Process> undecided;  // its row, until it is decided whether it died before others
  };

  bool take(FoundFile found);
  [[nodiscard]] bool has_room(const FoundFile& found);
  bool make_room();
  void forget_oldest_closed();
  void deliver_deaths_of(uint32_t user);
  void take_gone(FoundFile found);
  void add(FoundFile found, std::optional<Process> gone);
  static FileKey key_of(const st_box_header& header);
  [[nodiscard]] bool was_taken(const st_box_header& header) const;
  [[nodiscard]] bool is_number_here(const st_box_header& header) const;
  int32_t number_of_gone(const st_box_header& header);
  void read_files(int64_t probes_read_ns, int64_t until_ns);
  void follow(FollowedFile& file, int64_t probes_read_ns);
  void deliver_communicators(FollowedFile& file);
  void deliver_calls(FollowedFile& file, int64_t probes_read_ns);
  void deliver_steps(FollowedFile& file);
  void add_open_waits(FollowedFile& file, std::vector<StepRow>& rows);
  int32_t thread_here(FollowedFile& file, int32_t inner);
  void close(const FollowedFile& file);
  void deliver_deaths();

  const Node& node_;
  const Procfs& procfs_;
  ProcessRegistry& processes_;
  CallPairing& pairing_;
  EventSink& sink_;
  Note note_;
  ProfilerFileFinder finder_;
  uint64_t own_pid_namespace_ = 0;
  int32_t made_up_pids_ = 0;
  std::vector<FollowedFile> files_;
  std::deque<ClosedProcess> closed_;
  int64_t searched_ns_ = 0;
  bool finished_ = false;
  LossCounts losses_;  // of this object and of closed files
};

}  // namespace stalltrace::blackbox
