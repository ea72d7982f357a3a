// SPDX-License-Identifier: Apache-2.0
// Makes one row of a call that both the probes and a profiler file report: arrival and launch from the probe,
// completion from the file. Probe rows are forwarded at once and, when the file's record of the same call arrives
// (before or after the probe's last update), delivered again with its completion. A call that only one side reports is
// delivered unchanged.
//
// Where calls are captured into CUDA graphs, the probes count the captured calls, and the file counts what the graphs
// launch. What graphs launch is delivered on a communicator of its own, with the file's numbers, which all ranks share.
// The calls beside them are joined by their launch alone, and keep the probes' numbers. What else only the file has on
// such a communicator may be either, and gets no communicator.
//
// A file's rows arrive validated (blackbox/decode/) and affect rows of their own process only. All state is bounded;
// what exceeds a bound is counted in losses(). Pure: no kernel, no clock. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "blackbox/decode/call.h"
#include "blackbox/decode/step.h"
#include "blackbox/format/slot_table.h"
#include "blackbox/losses.h"
#include "blackbox/pairing/communicator_identity.h"
#include "blackbox/pairing/paired_calls.h"
#include "blackbox/pairing/pending_calls.h"
#include "blackbox/pairing/step_backlog.h"
#include "model/event_ids.h"
#include "model/events.h"

namespace stalltrace::blackbox {

class CallPairing final : public EventSink {
 public:
  /// All references must outlive the object; all rows go to `next`.
  CallPairing(EventIds& ids, EventSink& next) : ids_(ids), next_(next) {}

  /// A row of the probes. Only collectives and communicators are changed.
  void accept(Event event) override;

  /// A communicator of a file; `row.comm_ptr` is its serial number there.
  void communicator(const Communicator& row);
  /// A call of a file, ended or open; it may come again. The probe rows from before its start must have been accepted.
  /// `row.tid` is the thread's number on this host, 0 unknown.
  void call(ProfilerCall call);
  void step(StepRow step);
  /// `behind`: unread calls are left in the process's file, so waiting rows go on waiting for them.
  void set_behind(int32_t pid, bool behind);
  /// The process has ended, and its file is read to the end.
  void forget(int32_t pid);
  /// Delivers the steps that still wait for their collective, without it.
  void finish();

  /// The probes' row of a process's communicator, by NCCL's own hash; nullptr if the two are not connected.
  [[nodiscard]] const Communicator* find(int32_t pid, uint64_t nccl_comm_hash) const;
  [[nodiscard]] const LossCounts& losses() const { return losses_; }

 private:
  enum class Source { kBoth, kFileOnly, kLost };
  /// The row of one of the file's calls.
  struct Match {
    EventId event = 0;
    int64_t end_ns = 0;  // UTC, as last reported by the file; 0: not yet
    Source source = Source::kBoth;
    bool open = false;          // the file has so far reported it only as open
    bool kernel_begun = false;  // the file has reported the start of its kernel
  };
  /// Rows by the call's id in the file: the newest call in each slot, and the newest 4,096 whose slot holds another
  /// call by now.
  class Matches {
   public:
    Match* find(uint64_t id);
    /// False if it forgot a call whose end it does not know.
    bool put(uint64_t id, Match match);

   private:
    SlotTable<Match> newest_;
    std::unordered_map<uint64_t, Match> older_;
    std::deque<uint64_t> older_order_;
  };
  struct ProcessState {
    CommunicatorIdentity communicators;
    bool has_file = false;
    bool behind = false;
    PendingCalls pending;
    PairedCalls paired;
    Matches matches;
    StepBacklog steps;
    /// Communicators that only the file reports, and those of graphs, by `comm_ptr`; true: with their end.
    std::map<uint64_t, bool> delivered_serials;
  };

  void accept_collective(Collective row);
  void accept_communicator(Communicator row);
  ProcessState* state_for_file(int32_t pid);
  static PairedCall* parent_of(ProcessState& process, const Collective& call);
  Match match_new(ProcessState& process, ProfilerCall& call);
  void call_again(ProcessState& process, ProfilerCall& call, Match& match);
  void deliver(const ProcessState& process, const PairedCall& paired);
  void deliver_file_only(ProcessState& process, const ProfilerCall& call, EventId event);
  void deliver_serial(const ProcessState& process, uint64_t serial);
  void deliver_graph_serial(const ProcessState& process, uint64_t serial);
  void deliver_steps(const ProcessState& process, std::vector<ProxyStep> rows, EventId event);

  EventIds& ids_;
  EventSink& next_;
  std::unordered_map<int32_t, ProcessState> states_;
  LossCounts losses_;
};

}  // namespace stalltrace::blackbox
