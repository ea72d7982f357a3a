// SPDX-License-Identifier: Apache-2.0
// Records of calls → rows of `collective` and `communicator`. Pairs entries with returns, gives group members their
// group's launch, follows streams and events to find when an asynchronous call completed (collective_ends.cpp) or into
// which CUDA graphs it was captured (captured_streams), tracks the communicators (collective_communicators.cpp), and
// keeps calls that have not ended. Graphs that are launched are counted: what they run is not seen.
//
// Pure: no kernel, no clock; the same records give the same rows. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "capture/decode/collective/captured_streams.h"
#include "capture/decode/collective/open_calls.h"
#include "capture/python/call_standing.h"
#include "capture/user_shares.h"
#include "model/event_ids.h"
#include "model/events.h"
#include "model/process_registry.h"
#include "wire/collective.h"

namespace stalltrace::capture {

class CollectiveTracker {
 public:
  /// All references must outlive the tracker. `utc_offset_ns` is UTC minus CLOCK_MONOTONIC.
  CollectiveTracker(EventIds& ids, ProcessRegistry& processes, UserShares& shares, EventSink& sink,
                    int64_t utc_offset_ns);

  // Records of one thread arrive in the order in which the kernel sent them; records of different threads may be
  // interleaved. After a lost record, a return whose entry is not the thread's last one is ignored, and an entry
  // without its return stays open. on_exit drops the communicators and sequence numbers of a process id, so that a
  // reused id inherits nothing.

  /// `stack_id`: the row of `stack` with the call site; 0 unknown.
  void on_entry(const st_call_entry& record, int64_t stack_id = 0);
  void on_return(const st_call_return& record);
  void on_comm_init(const st_comm_init& record);
  /// Of a communicator that was made before tracing began: NCCL's own hash of it, and the rank on it.
  void on_nccl_identity(const st_nccl_identity& record);
  void on_sync(const st_sync& record);
  /// The part of a process's job identity that only its environment and files reveal.
  struct JobIdentity {
    uint64_t key = 0;        // equal on all ranks of the job, unique to it; 0 unknown
    uint64_t mpi_world = 0;  // MPI_COMM_WORLD's handle; 0: no MPI
  };
  void set_job(int32_t pid, JobIdentity job);
  /// Calls that the process left unfinished stay open.
  void on_exit(int32_t pid);
  /// RCCL exports NCCL's names, so the file decides which of the two a process uses.
  void set_library(int32_t pid, Library library);

  /// Delivers calls in flight that have changed since their last delivery, as open, and what is new of graphs. Called
  /// before each flush, so that a call that never returns is in the recording.
  void deliver_open();

  /// One entry for each process that has made a call that moves data.
  [[nodiscard]] std::vector<CallStanding> standings() const;

  [[nodiscard]] uint64_t calls() const { return calls_; }
  /// Our hash of the process's communicator with this hash of NCCL's; 0 unknown.
  [[nodiscard]] CommHash comm_of_nccl_hash(int32_t pid, uint64_t nccl_comm_hash) const;

 private:
  /// A communicator and the counters that number its point-to-point calls and splits.
  struct Comm {
    Communicator row;
    std::map<uint64_t, uint64_t> peer_base;  // first number seen, by {operation, peer}
    uint64_t splits = 0;
    std::set<uint32_t> recent_tags;
    bool tags_repeat = false;
    std::optional<int64_t> largest_reading;  // of Communicator::calls_before
    bool uncounted = false;                  // NCCL does not count all of its calls that have a number
  };
  /// What NCCL's memory showed of a communicator.
  struct Shown {
    st_nccl_fields fields{};
    std::optional<int64_t> calls_before;  // a reading
  };
  struct InFlight {
    EventId event = 0;
    uint64_t entry_ns = 0;
    uint32_t row = 0;                      // of the call table
    std::optional<Communicator> new_comm;  // set at the entry of a call that makes one
    uint64_t parent = 0;
  };
  /// A stream of a process, by its handle; what is the calling thread's own stream has one handle in all threads.
  static uint64_t stream_of(uint64_t handle, uint32_t tid, uint16_t row);
  /// What a stream had been given before this time (CLOCK_MONOTONIC).
  struct StreamPoint {
    uint64_t stream = 0;
    uint64_t time_ns = 0;
    CapturedStreams::Id capture = CapturedStreams::kNone;  // the capture that it is a part of
  };
  struct ProcessState {
    Library library = Library::kNccl;
    int32_t pid = 0;
    std::unordered_map<uint64_t, Comm> comms;  // by pointer
    std::set<uint64_t> destroyed;              // pointers of those that were destroyed: first to make room
    std::unordered_map<uint64_t, uint64_t> comm_by_nccl_hash;
    std::unordered_map<uint64_t, Shown> shown;  // until the call itself comes
    OpenCalls open;
    std::unordered_map<uint64_t, StreamPoint> events;                  // GPU event → where it was recorded
    std::unordered_map<uint32_t, std::vector<EventId>> group_members;  // by tid
    size_t grouped = 0;                                                // sum of their sizes
    std::unordered_map<uint32_t, InFlight> in_flight;                  // by tid
    bool synchronises = false;
    JobIdentity job;
    uint64_t worlds = 0;             // how many communicators of all ranks it has made
    std::deque<EventId> connecting;  // set-ups whose end is known from another call
    EventId newest = 0;              // newest call that moves data; 0: none yet
    CallStanding standing;
    CapturedStreams captures;
    GraphUse graphs;  // its process is named when it is delivered
    bool graphs_delivered = true;
  };

  [[nodiscard]] int64_t utc(uint64_t monotonic_ns) const { return static_cast<int64_t>(monotonic_ns) + utc_offset_ns_; }
  ProcessState& state_of(const st_header& header);
  /// Null where the process or its user has too many: what is made of that communicator is not recorded.
  Comm* comm_of(ProcessState& process, const st_header& header, uint64_t pointer);
  void learn_from_memory(ProcessState& process, Comm& comm, const Shown& shown);
  /// True if the communicator's row changed.
  static bool note_reading(Comm& comm, std::optional<int64_t> calls_before);
  void note_uncounted(Comm& comm);
  bool make_room_for_comm(ProcessState& process, int64_t now_ns);
  void forget_comm(ProcessState& process, uint64_t pointer);
  void forget_member(const Communicator& comm);
  [[nodiscard]] bool has_peer_on_node(const ProcessState& process, const Collective& row) const;
  Collective make_row(ProcessState& process, const st_header& header, uint16_t table_row);
  /// False where the call is not recorded, see comm_of.
  bool describe_data(ProcessState& process, const st_call_entry& record, Collective& row);
  bool describe_end(ProcessState& process, const st_call_entry& record, Collective& row);
  void note_member(ProcessState& process, uint32_t tid, EventId event);
  void note_in_flight(ProcessState& process, uint32_t tid, InFlight call);
  void note_event(ProcessState& process, uint64_t gpu_event, StreamPoint recorded);
  void forget_event(ProcessState& process, uint64_t gpu_event);
  static std::vector<EventId> launched_before(const ProcessState& process, StreamPoint point);
  static std::vector<EventId> launched_on_any_stream(const ProcessState& process, uint64_t before_ns);
  bool add_open(ProcessState& process, OpenCall call);
  OpenCall take_open(ProcessState& process, EventId event);
  void deliver_open(ProcessState& process);
  void deliver_graphs(ProcessState& process);
  void note_graph_launches(ProcessState& process, const st_sync& record, uint64_t stream);
  void end_capture(ProcessState& process, const st_sync& record, uint64_t stream);
  void wait_event(ProcessState& process, const st_sync& record, uint64_t stream);
  /// The call has returned, and its group: it runs, or is captured.
  void launched(ProcessState& process, OpenCall& call, uint64_t at_ns, uint64_t request = 0);
  /// Stops waiting for the end of the oldest launched call when too many wait: it stays open in the recording.
  void leave_open(ProcessState& process, uint64_t comm);
  void give_up_oldest(ProcessState& process);
  void give_up_lost_return(ProcessState& process, const st_header& header);
  /// Rank or number of ranks, asked for by the program.
  void on_query(ProcessState& process, const st_call_return& record, uint8_t kind);
  /// A call that makes communicators has returned. False: records of more of them follow.
  bool end_init(ProcessState& process, const st_call_return& record, const InFlight& call, OpenCall& live);
  void finish(ProcessState& process, EventId event, Completion completion, uint64_t end_ns);
  void end_group(ProcessState& process, const st_call_return& record, int64_t launch_ns);
  static void note_entry(ProcessState& process, const Collective& row);
  static uint64_t number_of_call(Comm& comm, const st_call_entry& record);
  void comm_made(ProcessState& process, const st_call_return& record, const InFlight& call);
  bool adopt(ProcessState& process, Communicator&& made, uint64_t now_ns);
  void describe_world(ProcessState& process, Communicator& comm);
  void end_set_up(ProcessState& process, std::optional<uint64_t> comm, Completion completion, uint64_t end_ns);
  void complete(ProcessState& process, const std::vector<EventId>& events, const st_sync& record);
  void complete_by_network(ProcessState& process, const st_call_entry& record);

  EventIds& ids_;
  ProcessRegistry& processes_;
  UserShares& shares_;
  EventSink& sink_;
  int64_t utc_offset_ns_;
  uint64_t calls_ = 0;
  std::unordered_map<int32_t, ProcessState> states_;
  std::unordered_map<CommHash, size_t> members_here_;  // of each identified communicator, on this node
};

}  // namespace stalltrace::capture
