// SPDX-License-Identifier: Apache-2.0
// Records of calls → rows of `collective` and `communicator`. Pairs entries with returns, gives group members their
// group's launch, follows streams and events to find when an asynchronous call completed (collective_ends.cpp), knows
// the communicators (collective_communicators.cpp), and keeps what has not ended.
//
// Pure: no kernel, no clock; the same records give the same rows. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "capture/python/call_standing.h"
#include "model/event_ids.h"
#include "model/events.h"
#include "model/process_registry.h"
#include "wire/collective.h"

namespace stalltrace::capture {

class CollectiveTracker {
 public:
  /// All references outlive the tracker. `utc_offset_ns` is UTC minus CLOCK_MONOTONIC.
  CollectiveTracker(EventIds& ids, ProcessRegistry& processes, EventSink& sink, int64_t utc_offset_ns);

  // Records of one thread arrive in the order in which the kernel sent them; those of different threads may be mixed.
  // Where a record was lost: a return whose entry is not the thread's last one is ignored, and an entry without its
  // return stays open. After on_exit a process id begins anew: its communicators and sequence numbers are forgotten, so
  // that a reused number inherits nothing.

  /// `stack_id` is of the row of `stack` that says where the call was made; 0: not known.
  void on_entry(const st_call_entry& record, int64_t stack_id = 0);
  void on_return(const st_call_return& record);
  void on_comm_init(const st_comm_init& record);
  void on_sync(const st_sync& record);
  /// What only the process's environment and files reveal about its job.
  struct JobPlace {
    uint64_t key = 0;        // the same on all ranks of the job, in no other; 0: not known
    uint64_t mpi_world = 0;  // MPI_COMM_WORLD's handle; 0: no MPI
  };
  void set_job(int32_t pid, JobPlace job);
  /// What the process left unfinished stays open.
  void on_exit(int32_t pid);
  /// RCCL exports NCCL's names: which of the two a process has is known from the file.
  void set_library(int32_t pid, Library library);

  /// Delivers, as open, what is in flight and has changed since it was last delivered. Called before each flush, so
  /// that a call that never returns is in the recording.
  void deliver_open();

  /// Of every process that has made a call that moves data.
  [[nodiscard]] std::vector<CallStanding> standings() const;

  [[nodiscard]] uint64_t calls() const { return calls_; }
  /// Our hash of a process's communicator by NCCL's own; 0 where it is not known.
  [[nodiscard]] CommHash comm_of_nccl_hash(int32_t pid, uint64_t nccl_comm_hash) const;

 private:
  /// A communicator and what numbers its point-to-point calls and splits.
  struct Comm {
    Communicator row;
    std::map<uint64_t, uint64_t> peer_base;  // first number seen by {operation, peer}
    uint64_t splits = 0;
    std::set<uint32_t> recent_tags;
    bool tags_repeat = false;
  };
  /// A call whose completion is not known yet.
  struct Live {
    Collective row;
    bool delivered = false;
    bool launched = false;       // its call, and its group's, have returned
    int64_t launched_ns = 0;     // CLOCK_MONOTONIC
    uint64_t net_bytes = 0;      // of the process, at entry
    std::set<uint64_t> streams;  // those whose synchronisation would mean that it is done
    uint64_t request = 0;        // MPI's, whose wait would
  };
  struct InFlight {
    EventId event = 0;
    uint64_t entry_ns = 0;
    std::optional<Communicator> new_comm;  // filled at entry of a call that makes one
    uint64_t parent = 0;
  };
  struct ProcessState {
    Library library = Library::kNccl;
    std::unordered_map<uint64_t, Comm> comms;                          // by pointer
    std::map<EventId, Live> live;                                      // in order of entry
    std::unordered_map<uint64_t, std::vector<EventId>> events;         // GPU event → what it comes after
    std::unordered_map<uint32_t, std::vector<EventId>> group_members;  // by tid
    std::unordered_map<uint32_t, InFlight> in_flight;                  // by tid
    bool synchronises = false;
    JobPlace job;
    uint64_t worlds = 0;              // communicators of all ranks that it has made
    std::vector<EventId> connecting;  // set-ups whose end is known from another call
    EventId newest = 0;               // of the calls that move data; 0: none yet
    CallStanding standing;
  };

  [[nodiscard]] int64_t utc(uint64_t monotonic_ns) const { return static_cast<int64_t>(monotonic_ns) + utc_offset_ns_; }
  ProcessState& state_of(const st_header& header);
  Comm& comm_of(ProcessState& process, const st_header& header, uint64_t pointer);
  Collective make_row(ProcessState& process, const st_header& header, uint16_t table_row);
  void describe_data(ProcessState& process, const st_call_entry& record, Collective& row);
  /// Gives up waiting for the end of the oldest launched call when too many wait: it stays open in the recording.
  void leave_open(ProcessState& process, uint64_t comm);
  void forget_oldest(ProcessState& process);
  void give_up_lost_return(ProcessState& process, const st_header& header);
  void finish(ProcessState& process, EventId event, Completion completion, uint64_t end_ns);
  void end_group(ProcessState& process, const st_call_return& record, int64_t launch_ns);
  static void note_entry(ProcessState& process, const Collective& row);
  static uint64_t number_of_call(Comm& comm, const st_call_entry& record);
  void comm_made(ProcessState& process, const st_call_return& record, const InFlight& call);
  void adopt(ProcessState& process, Communicator&& made);
  void describe_world(ProcessState& process, Communicator& comm);
  void end_set_up(ProcessState& process, std::optional<uint64_t> comm, Completion completion, uint64_t end_ns);
  static std::vector<EventId> begun_as(const ProcessState& process, uint64_t request);
  void complete(ProcessState& process, const std::vector<EventId>& events, const st_sync& record);
  void complete_by_network(ProcessState& process, const st_call_entry& record);

  EventIds& ids_;
  ProcessRegistry& processes_;
  EventSink& sink_;
  int64_t utc_offset_ns_;
  uint64_t calls_ = 0;
  std::unordered_map<int32_t, ProcessState> states_;
};

}  // namespace stalltrace::capture
