// SPDX-License-Identifier: Apache-2.0
#include "blackbox/pairing/call_pairing.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace stalltrace::blackbox {
namespace {

constexpr size_t kMostRows = 1024;   // kept per process, of each kind: a few seconds of a busy job
constexpr size_t kMostCalls = 4096;  // of a box whose rows' ids are remembered
constexpr size_t kMostSteps = 8192;  // that wait for their collective, per process
constexpr size_t kMostProcesses = 4096;
constexpr int64_t kSameMomentNs = 20 * kNsPerUs;         // both stamps are of one clock, microseconds apart
constexpr int64_t kLaunchedLaterNs = 10 * kNsPerSecond;  // by a thread of NCCL's own, or a stream's host function

constexpr int kContainedScore = 4;
constexpr int kThreadScore = 2;
constexpr int kNumberScore = 3;
constexpr int kNoMatch = -1;

/// What numbers of one kind count: collectives of a communicator, or transfers to or from a peer.
uint64_t number_kind(const Collective& row) {
  return is_point_to_point(row.op)
             ? uint64_t{1} << 63 | static_cast<uint64_t>(row.op) << 32 | static_cast<uint32_t>(row.peer.value_or(-1))
             : 0;
}

template <typename T>
bool differ(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b && *a != *b;
}

bool made_of_transfers(Operation op) {
  return op == Operation::kAllToAll || op == Operation::kGather || op == Operation::kScatter;
}

/// Whether the box's call began while the probe's was being launched.
bool contains(const Collective& probe, int64_t start_ns) {
  return start_ns >= probe.timestamp_ns - kSameMomentNs &&
         (!probe.launch_ns || start_ns <= probe.timestamp_ns + *probe.launch_ns + kSameMomentNs);
}

bool same_thread(const Collective& probe, const Collective& box) { return box.tid == 0 || box.tid == probe.tid; }

/// Rank and size as the box knows them, where the probes do not: a split tells them no size.
template <typename Row>
void complete(Row& row, const Communicator& box) {
  if (!row.rank || row.rank_source == RankSource::kEnvironment) {
    row.rank = box.rank;
    row.nranks = box.nranks;
    row.rank_source = box.rank_source;
  }
  row.nranks = row.nranks ? row.nranks : box.nranks;
}

}  // namespace

template <typename Value>
void CallPairing::Recent<Value>::put(uint64_t id, Value value, size_t most) {
  if (!values.insert_or_assign(id, std::move(value)).second) {
    return;
  }
  order.push_back(id);
  if (order.size() > most) {
    values.erase(order.front());
    order.pop_front();
  }
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
  if (const auto told = process.told.find(row.event_id); told != process.told.end()) {
    told->second.row = std::move(row);
    return deliver(process, told->second);
  }
  Collective described = row;
  describe(process, described);
  next_.accept(std::move(described));
  process.waiting.insert_or_assign(row.event_id, std::move(row));
  if (process.waiting.size() > kMostRows) {
    process.waiting.erase(process.waiting.begin());
  }
}

void CallPairing::accept_communicator(Communicator row) {
  ProcessState& process = states_[row.pid];
  Named& known = named(process, row.comm_ptr);
  if (known.seen && known.row.created_ns != row.created_ns) {
    known = {};  // another one at the same address
  }
  known.seen = true;
  known.row = row;
  if (const auto box = process.by_serial.find(known.serial); box != process.by_serial.end()) {
    complete(row, box->second);
    row.nccl_comm_hash = row.nccl_comm_hash != 0 ? row.nccl_comm_hash : box->second.nccl_comm_hash;
    row.comm_id_hash = row.comm_id_hash != 0 ? row.comm_id_hash : box->second.nccl_comm_hash;
  }
  next_.accept(std::move(row));
}

/// What the box knows of the communicator that a row of the probes names by its pointer.
void CallPairing::describe(ProcessState& process, Collective& row) {
  const auto known = process.by_pointer.find(row.comm_ptr);
  const auto box =
      known == process.by_pointer.end() ? process.by_serial.end() : process.by_serial.find(known->second.serial);
  if (box == process.by_serial.end()) {
    return;
  }
  if (row.comm_id_hash == 0) {
    row.comm_id_hash = box->second.nccl_comm_hash;
    const auto first = known->second.first_number.find(number_kind(row));
    if (row.seq && first != known->second.first_number.end()) {
      *row.seq += first->second;
    }
  }
  complete(row, box->second);
}

void CallPairing::communicator(const Communicator& row) {
  ProcessState& process = states_[row.pid];
  if (process.by_serial.size() < kMostRows || process.by_serial.contains(row.comm_ptr)) {
    process.by_serial.insert_or_assign(row.comm_ptr, row);
  }
  if (const auto delivered = process.delivered_serials.find(row.comm_ptr);
      delivered != process.delivered_serials.end() && row.destroyed_ns && !std::exchange(delivered->second, true)) {
    next_.accept(row);
  }
}

bool CallPairing::compatible(ProcessState& process, const Collective& probe, const Collective& box) const {
  if (probe.op != box.op || differ(probe.peer, box.peer) || differ(probe.root, box.root) ||
      differ(probe.count, box.count) || differ(probe.datatype, box.datatype) ||
      box.timestamp_ns < probe.called_ns - kSameMomentNs) {
    return false;
  }
  const auto known = process.by_pointer.find(probe.comm_ptr);
  if (known == process.by_pointer.end()) {
    return true;
  }
  if (known->second.serial != 0) {
    return known->second.serial == box.comm_ptr;
  }
  const uint64_t hash = known->second.row.nccl_comm_hash;
  return hash == 0 || box.comm_id_hash == 0 || hash == box.comm_id_hash;
}

/// How well a row of the probes fits a call of the box; kNoMatch where it can't be the same.
int CallPairing::score(ProcessState& process, const Collective& probe, const Collective& box) const {
  if (!compatible(process, probe, box)) {
    return kNoMatch;
  }
  int score = 0;
  if (contains(probe, box.timestamp_ns)) {
    score += kContainedScore + (same_thread(probe, box) ? kThreadScore : 0);
  }
  const auto known = process.by_pointer.find(probe.comm_ptr);
  if (probe.seq && box.seq && known != process.by_pointer.end()) {
    const auto first = known->second.first_number.find(number_kind(probe));
    const bool counted = first != known->second.first_number.end() || probe.comm_id_hash != 0;
    const int64_t number = *probe.seq + (first != known->second.first_number.end() ? first->second : 0);
    const bool close = box.timestamp_ns - probe.called_ns < kLaunchedLaterNs;
    score += counted && close && number == *box.seq ? kNumberScore : 0;
  }
  return score >= kNumberScore ? score : kNoMatch;
}

std::map<EventId, Collective>::iterator CallPairing::best_match(ProcessState& process, const Collective& box) {
  auto best = process.waiting.end();
  int best_score = kNoMatch;
  for (auto probe = process.waiting.begin(); probe != process.waiting.end(); ++probe) {
    if (const int found = score(process, probe->second, box); found > best_score) {
      best = probe;
      best_score = found;
    }
  }
  return best;
}

/// From the first match on it is known which of the box's communicators a pointer names.
void CallPairing::name_communicator(ProcessState& process, const Collective& probe, const Collective& box) {
  Named& known = named(process, probe.comm_ptr);
  if (probe.comm_id_hash == 0 && probe.seq && box.seq) {
    known.first_number.try_emplace(number_kind(probe), *box.seq - *probe.seq);
  }
  if (known.serial != 0 || box.comm_ptr == 0) {
    return;
  }
  known.serial = box.comm_ptr;
  if (known.seen) {
    accept_communicator(known.row);
  }
}

/// The probes' row becomes one that a box tells of, too.
CallPairing::Told* CallPairing::told_as(ProcessState& process, std::map<EventId, Collective>::iterator probe) {
  if (process.told.size() >= kMostRows) {  // an open one is still to be told of
    const auto ended = std::ranges::find_if(process.told, [](const auto& entry) { return entry.second.ended(); });
    process.told.erase(ended == process.told.end() ? process.told.begin() : ended);
  }
  const auto told = process.told.insert_or_assign(probe->first, Told{.row = std::move(probe->second)}).first;
  process.waiting.erase(probe);
  return &told->second;
}

/// The AllToAll, Gather or Scatter that NCCL makes of this Send or Recv and others: they are no calls of their own.
CallPairing::Told* CallPairing::parent_of(ProcessState& process, const Collective& box) {
  const auto holds = [&](const Collective& row) {
    return made_of_transfers(row.op) && contains(row, box.timestamp_ns) && same_thread(row, box);
  };
  for (auto& [event, told] : process.told) {
    if (holds(told.row)) {
      return &told;
    }
  }
  for (auto probe = process.waiting.begin(); probe != process.waiting.end(); ++probe) {
    if (holds(probe->second)) {
      return told_as(process, probe);
    }
  }
  return nullptr;
}

/// The last part that ends is the end. Returns whether the parent's row says something else now.
bool CallPairing::add_part(Told& parent, const blackbox::BoxCall& call) {
  const auto before = std::pair(parent.ended(), parent.end_ns);
  if (const auto end_ns = call.row.end_ns()) {
    parent.open_parts.erase(call.id);
    parent.end_ns = std::max(parent.end_ns.value_or(0), *end_ns);
  } else if (call.row.completion == Completion::kOpen && parent.open_parts.size() < kMostCalls) {
    parent.open_parts.insert(call.id);
  }
  return before != std::pair(parent.ended(), parent.end_ns);
}

void CallPairing::deliver(ProcessState& process, Told& told) {
  Collective row = told.row;
  describe(process, row);
  if (told.ended()) {
    row.duration_ns = std::max<int64_t>(*told.end_ns - row.timestamp_ns, 0);
    row.completion = Completion::kProfiler;
  }
  next_.accept(std::move(row));
}

void CallPairing::call_again(ProcessState& process, blackbox::BoxCall& call, const Match& match) {
  if (match.own) {
    if (call.row.duration_ns) {
      deliver_own(process, call, match.event);
    }
    return;
  }
  const auto told = process.told.find(match.event);
  if (told == process.told.end()) {
    return;  // its row stays as it was
  }
  bool changed = false;
  if (made_of_transfers(told->second.row.op)) {
    changed = add_part(told->second, call);
  } else if (call.row.end_ns() && told->second.end_ns != call.row.end_ns()) {
    told->second.end_ns = call.row.end_ns();
    changed = true;
  }
  if (changed) {
    deliver(process, told->second);
  }
}

void CallPairing::call(blackbox::BoxCall call) {
  if (states_.size() >= kMostProcesses && !states_.contains(call.row.pid)) {
    return;
  }
  ProcessState& process = states_[call.row.pid];
  if (const Match* match = process.matches.find(call.id)) {
    return call_again(process, call, *match);
  }
  Match match;
  if (Told* parent = is_point_to_point(call.row.op) ? parent_of(process, call.row) : nullptr; parent != nullptr) {
    match.event = parent->row.event_id;
    add_part(*parent, call);
    deliver(process, *parent);
  } else if (const auto probe = best_match(process, call.row); probe != process.waiting.end()) {
    match.event = probe->first;
    name_communicator(process, probe->second, call.row);
    Told& told = *told_as(process, probe);
    told.end_ns = call.row.end_ns();
    deliver(process, told);
  } else {
    match = {ids_.next(), true};
    deliver_own(process, call, match.event);
  }
  process.matches.put(call.id, match, kMostCalls);
  deliver_steps(process, call.id, match.event);
}

/// A row that only the box tells of. Its communicator is the probes' where they know it.
void CallPairing::deliver_own(ProcessState& process, blackbox::BoxCall& call, EventId event) {
  Collective row = call.row;
  row.event_id = event;
  const uint64_t serial = row.comm_ptr;
  const auto named = std::ranges::find_if(process.by_pointer, [&](const auto& entry) {
    const Communicator& known = entry.second.row;
    return entry.second.serial == serial ||
           (entry.second.serial == 0 && known.nccl_comm_hash != 0 && known.nccl_comm_hash == row.comm_id_hash);
  });
  if (named != process.by_pointer.end() && serial != 0) {
    row.comm_ptr = named->first;
    row.comm_id_hash = named->second.row.comm_id_hash != 0 ? named->second.row.comm_id_hash : row.comm_id_hash;
  } else if (const auto known = process.by_serial.find(serial);
             known != process.by_serial.end() && process.delivered_serials.try_emplace(serial, false).second) {
    next_.accept(known->second);
  }
  next_.accept(std::move(row));
}

const Communicator* CallPairing::find(const ProcessState& process, uint64_t nccl_comm_hash) {
  for (const auto& [pointer, known] : process.by_pointer) {
    const auto box = process.by_serial.find(known.serial);
    if (nccl_comm_hash != 0 && (known.row.nccl_comm_hash == nccl_comm_hash ||
                                (box != process.by_serial.end() && box->second.nccl_comm_hash == nccl_comm_hash))) {
      return &known.row;
    }
  }
  return nullptr;
}

const Communicator* CallPairing::find(int32_t pid, uint64_t nccl_comm_hash) const {
  const auto process = states_.find(pid);
  return process == states_.end() ? nullptr : find(process->second, nccl_comm_hash);
}

/// The communicator's name is the probes' where they know it.
void CallPairing::deliver_step(const ProcessState& process, ProxyStep row) {
  const Communicator* known = find(process, row.comm_id_hash);
  if (known != nullptr && known->comm_id_hash != 0) {
    row.comm_id_hash = known->comm_id_hash;
  }
  next_.accept(std::move(row));
}

void CallPairing::step(blackbox::StepRow step) {
  ProcessState& process = states_[step.row.pid];
  if (const Match* match = process.matches.find(step.collective); match != nullptr || step.collective == 0) {
    step.row.collective_id = match != nullptr ? match->event : 0;
    return deliver_step(process, std::move(step.row));
  }
  std::vector<ProxyStep>& waiting = process.steps[step.collective];
  if (waiting.empty()) {
    process.step_order.push_back(step.collective);
  }
  waiting.push_back(std::move(step.row));
  ++process.waiting_steps;
  give_up_oldest_steps(process);
}

/// Steps whose collective has not come for so long are delivered without it, so that later ones have room to wait.
void CallPairing::give_up_oldest_steps(ProcessState& process) {
  while (process.waiting_steps > kMostSteps || process.step_order.size() > kMostSteps) {
    const uint64_t oldest = process.step_order.front();
    process.step_order.pop_front();
    deliver_steps(process, oldest, 0);
  }
}

void CallPairing::deliver_steps(ProcessState& process, uint64_t box_id, EventId event) {
  const auto found = process.steps.find(box_id);
  if (found == process.steps.end()) {
    return;
  }
  process.waiting_steps -= found->second.size();
  for (ProxyStep& row : found->second) {
    row.collective_id = event;
    deliver_step(process, std::move(row));
  }
  process.steps.erase(found);
}

void CallPairing::forget(int32_t pid) {
  const auto found = states_.find(pid);
  if (found == states_.end()) {
    return;
  }
  for (auto& [id, rows] : found->second.steps) {
    for (ProxyStep& row : rows) {
      deliver_step(found->second, std::move(row));
    }
  }
  states_.erase(found);
}

void CallPairing::finish() {
  for (auto& [pid, process] : states_) {
    for (auto& [id, rows] : process.steps) {
      for (ProxyStep& row : rows) {
        deliver_step(process, std::move(row));
      }
    }
    process.steps.clear();
    process.step_order.clear();
    process.waiting_steps = 0;
  }
}

}  // namespace stalltrace::blackbox
