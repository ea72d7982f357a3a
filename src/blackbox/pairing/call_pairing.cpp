// SPDX-License-Identifier: Apache-2.0
#include "blackbox/pairing/call_pairing.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"

namespace stalltrace::blackbox {
namespace {

constexpr size_t kMostOlderMatches = 4096;
constexpr size_t kMostProcesses = 4096;

/// The name of what graphs launch on a communicator, from NCCL's own.
CommHash graph_name(CommHash hash) {
  constexpr uint64_t kGraph = 0x6772617068;  // "graph"
  return hash == 0 ? 0 : splitmix64_fold(hash, kGraph);
}

}  // namespace

CallPairing::Match* CallPairing::Matches::find(uint64_t id) {
  if (Match* newest = newest_.find(id)) {
    return newest;
  }
  const auto found = older_.find(id);
  return found == older_.end() ? nullptr : &found->second;
}

bool CallPairing::Matches::put(uint64_t id, Match match) {
  const auto older = newest_.put(id, match);
  if (!older || !older_.emplace(older->id, older->value).second) {
    return true;
  }
  older_order_.push_back(older->id);
  if (older_order_.size() <= kMostOlderMatches) {
    return true;
  }
  const auto oldest = older_.find(older_order_.front());
  const bool had_ended = oldest->second.end_ns != 0;
  older_.erase(oldest);
  older_order_.pop_front();
  return had_ended;
}

void CallPairing::accept(Event event) {
  if (auto* row = std::get_if<Collective>(&event); row != nullptr && moves_data(row->op)) {
    return accept_collective(std::move(*row));
  }
  if (auto* row = std::get_if<Communicator>(&event)) {
    return accept_communicator(std::move(*row));
  }
  next_.accept(std::move(event));
}

void CallPairing::accept_collective(Collective row) {
  if (row.library != Library::kNccl && row.library != Library::kRccl) {
    return next_.accept(std::move(row));
  }
  ProcessState& process = states_[row.pid];
  if (row.completion == Completion::kCaptured) {
    process.communicators.note_captured(row.comm_ptr);
    if (process.pending.contains(row.event_id)) {  // it was open until its launch had returned
      process.pending.take(row.event_id);
    }
    process.communicators.complete(row);
    return next_.accept(std::move(row));
  }
  if (!process.has_file) {  // nothing to complete the row with, or pair it with, yet
    process.pending.put(row, false);
    return next_.accept(std::move(row));
  }
  if (PairedCall* paired = process.paired.find(row.event_id)) {
    process.paired.set_row(*paired, std::move(row));
    return deliver(process, *paired);
  }
  if (const auto end = process.paired.kept_end(row)) {
    return deliver(process, {.row = std::move(row), .file = *end});
  }
  if (row.completion != Completion::kOpen && process.paired.may_have_forgotten(row.event_id) &&
      !process.pending.contains(row.event_id)) {
    losses_.add(kLostUnpaired);  // this end replaces the file's
  }
  Collective completed = row;
  process.communicators.complete(completed);
  // It may never be joined: one of NCCL's own threads may launch it, and its number shows nothing. The file is to say
  // that it is open.
  if (process.has_file && completed.completion == Completion::kOpen && completed.launch_ns &&
      process.communicators.captures(completed.comm_ptr)) {
    completed.completion = Completion::kUnobserved;
  }
  next_.accept(std::move(completed));
  if (!process.pending.put(row, true, process.behind)) {
    losses_.add(kLostForgotten);
  }
}

void CallPairing::accept_communicator(Communicator row) {
  ProcessState& process = states_[row.pid];
  next_.accept(process.communicators.accept_probed(std::move(row)));
  const auto forgotten = process.communicators.take_forgotten();
  losses_.add(kLostCommunicators, process.has_file ? forgotten : 0);  // without a file no call is looked up
}

/// The state of a file's process; nullptr where there are too many processes.
CallPairing::ProcessState* CallPairing::state_for_file(int32_t pid) {
  if (states_.size() >= kMostProcesses && !states_.contains(pid)) {
    losses_.add(kLostProcesses);
    return nullptr;
  }
  ProcessState& process = states_[pid];
  process.has_file = true;
  return &process;
}

void CallPairing::communicator(const Communicator& row) {
  ProcessState* process = state_for_file(row.pid);
  if (process == nullptr) {
    return;
  }
  if (!process->communicators.accept_profiled(row)) {
    losses_.add(kLostCommunicators);
  }
  if (const auto delivered = process->delivered_serials.find(row.comm_ptr);
      delivered != process->delivered_serials.end() && row.destroyed_ns && !std::exchange(delivered->second, true)) {
    deliver_serial(*process, row.comm_ptr);
  }
  if (const auto delivered = process->delivered_serials.find(row.comm_ptr | kGraphCommunicator);
      delivered != process->delivered_serials.end() && row.destroyed_ns && !std::exchange(delivered->second, true)) {
    deliver_graph_serial(*process, row.comm_ptr);
  }
}

/// The AllToAll, Gather or Scatter that contains a Send or Recv of the file, or null.
PairedCall* CallPairing::parent_of(ProcessState& process, const Collective& call) {
  if (PairedCall* paired = process.paired.parent(call)) {
    return paired;
  }
  const Collective* pending = process.pending.parent(call);
  return pending == nullptr ? nullptr : &process.paired.add(process.pending.take(pending->event_id));
}

void CallPairing::deliver(const ProcessState& process, const PairedCall& paired) {
  Collective row = paired.row;
  process.communicators.complete(row);
  if (paired.ended()) {
    row.duration_ns = std::max<int64_t>(*paired.file.end_ns - row.timestamp_ns, 0);
    row.completion = Completion::kProfiler;
    row.kernel_end_ns = paired.file.kernels_known ? paired.file.kernel_end_ns : std::nullopt;
  }
  row.kernel_start_ns = paired.file.kernels_known ? paired.file.kernel_start_ns : std::nullopt;
  next_.accept(std::move(row));
}

void CallPairing::call_again(ProcessState& process, ProfilerCall& call, Match& match) {
  const int64_t end_ns = call.row.end_ns().value_or(match.end_ns);
  const bool has_first_end = match.end_ns == 0 && end_ns != 0;
  const bool has_new_end = std::exchange(match.end_ns, end_ns) != end_ns;
  const bool is_over = call.row.completion != Completion::kOpen && std::exchange(match.open, false);
  const bool has_begun = call.row.kernel_start_ns && !std::exchange(match.kernel_begun, true);
  if (match.source == Source::kFileOnly) {
    if (has_new_end || is_over || has_begun) {
      deliver_file_only(process, call, match.event);
    }
  } else if (PairedCall* paired = match.source == Source::kBoth ? process.paired.find(match.event) : nullptr) {
    if (process.paired.report(*paired, call)) {
      deliver(process, *paired);
    }
  } else if (match.source == Source::kBoth && has_first_end) {
    losses_.add(kLostUnpaired);  // its row is dropped, and keeps no end
  }
}

CallPairing::Match CallPairing::match_new(ProcessState& process, ProfilerCall& call) {
  Match match{.end_ns = call.row.end_ns().value_or(0),
              .open = call.row.completion == Completion::kOpen,
              .kernel_begun = call.row.kernel_start_ns.has_value()};
  if (call.by_graph) {
    match.event = ids_.next();
    match.source = Source::kFileOnly;
    deliver_file_only(process, call, match.event);
  } else if (PairedCall* parent = is_point_to_point(call.row.op) ? parent_of(process, call.row) : nullptr) {
    match.event = parent->row.event_id;
    process.paired.report(*parent, call);
    if (call.row.completion == Completion::kOpen && !parent->open_parts.contains(call.id)) {
      losses_.add(kLostParts);
    }
    deliver(process, *parent);
  } else if (const Collective* probed = process.pending.match(call.row, process.communicators)) {
    match.event = probed->event_id;
    if (auto connected = process.communicators.connect(*probed, call.row)) {
      next_.accept(std::move(*connected));
    }
    losses_.add(kLostCommunicators, process.communicators.take_forgotten());
    PairedCall& paired = process.paired.add(process.pending.take(match.event));
    process.paired.report(paired, call);
    deliver(process, paired);
  } else if (const auto given_up = process.pending.given_up(call.row, process.communicators)) {
    match.event = *given_up;
    match.source = Source::kLost;
    losses_.add(kLostUnpaired);  // its row is already delivered: another one would be a second row of one call
  } else {
    match.event = ids_.next();
    match.source = Source::kFileOnly;
    deliver_file_only(process, call, match.event);
  }
  return match;
}

void CallPairing::call(ProfilerCall call) {
  ProcessState* process = state_for_file(call.row.pid);
  if (process == nullptr) {
    return;
  }
  if (Match* match = process->matches.find(call.id)) {
    return call_again(*process, call, *match);
  }
  const Match match = match_new(*process, call);
  if (!process->matches.put(call.id, match)) {
    losses_.add(kLostUnpaired);
  }
  deliver_steps(*process, process->steps.take(call.id), match.event);
}

/// The row of a communicator, which the file has, under its serial number there.
void CallPairing::deliver_serial(const ProcessState& process, uint64_t serial) {
  next_.accept(*process.communicators.profiled(serial));
}

/// The row of what graphs launch on a communicator of the file. Its parent is that communicator, whose connections it
/// uses.
void CallPairing::deliver_graph_serial(const ProcessState& process, uint64_t serial) {
  Communicator row = *process.communicators.profiled(serial);
  Collective parent;
  parent.comm_ptr = serial;
  parent.comm_id_hash = row.comm_id_hash;
  process.communicators.rename(parent);
  row.comm_ptr = serial | kGraphCommunicator;
  row.parent_hash = parent.comm_id_hash;
  row.comm_id_hash = graph_name(row.comm_id_hash);
  row.nccl_comm_hash = 0;
  next_.accept(std::move(row));
}

/// Delivers a call that only the file reports, with the probes' name of its communicator where known, and where both
/// number alike. What a graph launched is named alike whatever the probes of this process saw.
void CallPairing::deliver_file_only(ProcessState& process, const ProfilerCall& call, EventId event) {
  Collective row = call.row;
  row.event_id = event;
  const bool renamed = process.communicators.rename(row);
  if (call.by_graph) {
    if (renamed) {
      process.communicators.note_captured(row.comm_ptr);  // before tracing began
    }
    row.comm_ptr = call.row.comm_ptr | kGraphCommunicator;
    row.comm_id_hash = graph_name(call.row.comm_id_hash);
    if (process.communicators.profiled(call.row.comm_ptr) != nullptr &&
        process.delivered_serials.try_emplace(row.comm_ptr, false).second) {
      deliver_graph_serial(process, call.row.comm_ptr);
    }
  } else if (renamed && process.communicators.captures(row.comm_ptr)) {
    row.comm_ptr = call.row.comm_ptr | kUncertainCommunicator;
    row.comm_id_hash = 0;
  } else if (!renamed && process.communicators.profiled(row.comm_ptr) != nullptr &&
             process.delivered_serials.try_emplace(row.comm_ptr, false).second) {
    deliver_serial(process, row.comm_ptr);
  }
  next_.accept(std::move(row));
}

const Communicator* CallPairing::find(int32_t pid, uint64_t nccl_comm_hash) const {
  const auto process = states_.find(pid);
  return process == states_.end() ? nullptr : process->second.communicators.find(nccl_comm_hash);
}

/// `event`: the row of their collective; 0 unknown. The communicator gets the probes' name where known.
void CallPairing::deliver_steps(const ProcessState& process, std::vector<ProxyStep> rows, EventId event) {
  for (ProxyStep& row : rows) {
    row.collective_id = event;
    const Communicator* known = process.communicators.find(row.comm_id_hash);
    if (known != nullptr && known->comm_id_hash != 0) {
      row.comm_id_hash = known->comm_id_hash;
    }
    next_.accept(std::move(row));
  }
}

void CallPairing::step(StepRow step) {
  ProcessState* process = state_for_file(step.row.pid);
  if (process == nullptr) {
    return next_.accept(std::move(step.row));
  }
  const Match* match = process->matches.find(step.collective);
  if (match != nullptr || step.collective == 0) {
    return deliver_steps(*process, {std::move(step.row)}, match != nullptr ? match->event : 0);
  }
  std::vector<ProxyStep> given_up = process->steps.hold(step.collective, std::move(step.row));
  losses_.add(kLostUnlinkedSteps, given_up.size());
  deliver_steps(*process, std::move(given_up), 0);
}

void CallPairing::set_behind(int32_t pid, bool behind) {
  if (const auto process = states_.find(pid); process != states_.end()) {
    process->second.behind = behind;
  }
}

void CallPairing::forget(int32_t pid) {
  if (const auto process = states_.find(pid); process != states_.end()) {
    deliver_steps(process->second, process->second.steps.take_all(), 0);
    states_.erase(process);
  }
}

void CallPairing::finish() {
  for (auto& [pid, process] : states_) {
    deliver_steps(process, process.steps.take_all(), 0);
  }
}

}  // namespace stalltrace::blackbox
