// SPDX-License-Identifier: Apache-2.0
// The profiler files of this host, live: finds them, reads what is new in bounded rounds, and gives it to the merge.
// Boxes of processes that are gone become rows too, with their process. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "blackbox/decode/decode.h"
#include "blackbox/decode/steps.h"
#include "blackbox/follow/finder.h"
#include "blackbox/format/reader.h"
#include "blackbox/pairing/call_pairing.h"
#include "model/process_registry.h"

namespace stalltrace::blackbox {

class ProfilerFollower {
 public:
  using Note = std::function<void(const std::string& text)>;
  /// References outlive the tracker; `sink` gets processes and losses.
  ProfilerFollower(const Node& node, const Procfs& procfs, ProfilerFileFinder::Scope scope, ProcessRegistry& processes,
                   CallPairing& merge, EventSink& sink, Note note);

  void add_process(pid_t pid) { finder_.add_process(pid); }
  void end_process(pid_t pid);
  /// One round. What the probes saw before `probes_read_ns` (CLOCK_MONOTONIC) is with the merge: what boxes tell of
  /// later waits for the next round.
  void round(int64_t probes_read_ns);
  /// Reads all there is, for a second at most.
  void finish(int64_t probes_read_ns);
  void deliver_losses();
  /// On how many hosts the communicator's ranks are, as NCCL told the process; 0 where it is not known.
  [[nodiscard]] int32_t nodes_of(int32_t pid, uint64_t nccl_comm_hash) const;

 private:
  struct Box {
    blackbox::BoxReader reader;
    blackbox::Owner owner;
    bool alive = false;
    bool numbers_differ = false;  // its process has other numbers in its own pid namespace
    bool drained = false;
    bool over = false;
    int64_t looked_ns = 0;  // when its open parts were read
    uint64_t communicators_made = 0;
    int64_t heard_ns = 0;  // the newest time that an event of it bears
    bool left_open = false;
    std::map<uint64_t, st_box_communicator> communicators;
    blackbox::EventTable calls;  // on the caller's thread: what collectives name as their parents
    std::deque<uint64_t> call_ids;
    blackbox::StepDecoder steps;
    std::vector<st_box_event> held;  // ended collectives that the probes may not have told of yet
    std::map<uint64_t, std::pair<uint64_t, int32_t>> told_waits;  // by open operation: since when, and which step
    std::map<pid_t, pid_t> threads;
    int64_t threads_read_ns = 0;
    std::map<std::string, uint64_t> losses;
  };
  /// A process that was gone when its box was found.
  struct Gone {
    Process row;
    int64_t heard_ns = 0;
    bool left_open = false;
  };

  void take(FoundBox found);
  int32_t number_here(const st_box_header& header);
  void follow(Box& box, int64_t probes_read_ns);
  Result<blackbox::Contents> read(Box& box, bool look, uint64_t most_records);
  void learn_communicators(Box& box, const blackbox::Contents& contents);
  void keep_call(Box& box, const st_box_event& event);
  void deliver_calls(Box& box, const blackbox::Contents& contents, int64_t probes_read_ns);
  void deliver_steps(Box& box, const blackbox::Contents& contents);
  void deliver_open_waits(Box& box, const blackbox::Contents& contents, std::vector<blackbox::StepRow>& rows);
  void count_losses(Box& box, const blackbox::Contents& contents);
  int32_t thread_here(Box& box, int32_t inner);
  [[nodiscard]] static const st_box_communicator* find(const Box& box, uint64_t serial);
  void close(Box& box);
  void tell_who_died();

  const Node& node_;
  const Procfs& procfs_;
  ProcessRegistry& processes_;
  CallPairing& merge_;
  EventSink& sink_;
  Note note_;
  ProfilerFileFinder finder_;
  uint64_t own_pid_namespace_ = 0;
  int32_t made_up_pids_ = 0;
  std::vector<Box> boxes_;
  std::vector<Gone> gone_;
  int64_t looked_ns_ = 0;
  int64_t newest_heard_ns_ = 0;  // by any box of a process that is gone
  std::map<std::string, uint64_t> losses_;
};

}  // namespace stalltrace::blackbox
