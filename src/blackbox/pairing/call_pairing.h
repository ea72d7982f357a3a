// SPDX-License-Identifier: Apache-2.0
// What probes and profiler files tell of the same calls becomes one row: arrival and launch from the probe, the true
// end from the profiler plugin. Rows of the probes pass through; the box's word is put into them, whichever comes
// first. A call that only a box tells has a row of its own, one that only a probe tells stays as it is.
//
// A box's bytes are its user's: rows come checked (blackbox/decode/decode.h), and they change rows of their own process
// only. Pure: no kernel, no clock. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "blackbox/decode/decode.h"
#include "blackbox/decode/steps.h"
#include "model/event_ids.h"
#include "model/events.h"
#include "model/process_registry.h"

namespace stalltrace::blackbox {

class CallPairing final : public EventSink {
 public:
  /// References outlive the merge; what is merged goes to `next`.
  CallPairing(EventIds& ids, EventSink& next) : ids_(ids), next_(next) {}

  /// A row of the probes, or of anything else, which passes.
  void accept(Event event) override;

  /// A communicator of a box; `row.comm_ptr` is its serial there.
  void communicator(const Communicator& row);
  /// A collective, Send or Recv of a box: it has ended, or it is open. Rows of the probes from before its start were
  /// accepted. It may come again. `row.tid` is a thread's number on this host, or 0.
  void call(blackbox::BoxCall call);
  void step(blackbox::StepRow step);
  /// The process is gone and its box is read to the end.
  void forget(int32_t pid);
  /// The probes' row of a process's communicator, by NCCL's own hash of it; nullptr where they have not met.
  [[nodiscard]] const Communicator* find(int32_t pid, uint64_t nccl_comm_hash) const;
  /// Steps whose collective was never told are delivered without it.
  void finish();

 private:
  struct Told {  // of a row of the probes that a box tells of too
    Collective row;
    std::optional<int64_t> end_ns;
    std::set<uint64_t> open_parts;  // of a call that is made of transfers: those that have not ended
    [[nodiscard]] bool ended() const { return end_ns && open_parts.empty(); }
  };
  /// The row that a call of a box is part of.
  struct Match {
    EventId event = 0;
    bool own = false;  // only the box tells of it
  };
  /// A communicator as the probes know it.
  struct Named {
    Communicator row;
    bool seen = false;                         // the probes have told its row
    uint64_t serial = 0;                       // in the box; 0 not known yet
    std::map<uint64_t, int64_t> first_number;  // by operation and peer: the box's number of the probes' number 0
  };
  template <typename Value>
  struct Recent {  // by box id; the oldest go first
    std::unordered_map<uint64_t, Value> values;
    std::deque<uint64_t> order;
    Value* find(uint64_t id) {
      const auto found = values.find(id);
      return found == values.end() ? nullptr : &found->second;
    }
    void put(uint64_t id, Value value, size_t most);
  };
  struct ProcessState {
    std::map<EventId, Collective> waiting;  // rows of the probes that no box has told of yet
    std::map<EventId, Told> told;           // those one has
    std::unordered_map<uint64_t, Named> by_pointer;
    std::unordered_map<uint64_t, Communicator> by_serial;
    std::map<uint64_t, bool> delivered_serials;
    Recent<Match> matches;                                       // of the box's calls
    std::unordered_map<uint64_t, std::vector<ProxyStep>> steps;  // of calls that were not told yet
    std::deque<uint64_t> step_order;                             // those calls, and some told since
    size_t waiting_steps = 0;
  };

  static const Communicator* find(const ProcessState& process, uint64_t nccl_comm_hash);
  void accept_collective(Collective row);
  void accept_communicator(Communicator row);
  Named& named(ProcessState& process, uint64_t pointer) { return process.by_pointer[pointer]; }
  [[nodiscard]] bool compatible(ProcessState& process, const Collective& probe, const Collective& box) const;
  [[nodiscard]] int score(ProcessState& process, const Collective& probe, const Collective& box) const;
  std::map<EventId, Collective>::iterator best_match(ProcessState& process, const Collective& box);
  Told* told_as(ProcessState& process, std::map<EventId, Collective>::iterator probe);
  Told* parent_of(ProcessState& process, const Collective& box);
  static bool add_part(Told& parent, const blackbox::BoxCall& call);
  void call_again(ProcessState& process, blackbox::BoxCall& call, const Match& match);
  void name_communicator(ProcessState& process, const Collective& probe, const Collective& box);
  void describe(ProcessState& process, Collective& row);
  void deliver(ProcessState& process, Told& told);
  void deliver_own(ProcessState& process, blackbox::BoxCall& call, EventId event);
  void deliver_steps(ProcessState& process, uint64_t box_id, EventId event);
  void deliver_step(const ProcessState& process, ProxyStep row);
  void give_up_oldest_steps(ProcessState& process);

  EventIds& ids_;
  EventSink& next_;
  std::unordered_map<int32_t, ProcessState> states_;
};

}  // namespace stalltrace::blackbox
