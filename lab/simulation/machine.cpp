// SPDX-License-Identifier: Apache-2.0
#include "lab/simulation/machine.h"

#include <algorithm>

#include "lab/simulation/shapes.h"

namespace stalltrace::simulation {
namespace {

constexpr int64_t kLaunchNs = 20 * kNsPerUs;
constexpr int32_t kFloat32 = 7;  // ncclFloat32
constexpr int kWarmUpSteps = 3;

int64_t ms(double value) { return static_cast<int64_t>(value * static_cast<double>(kNsPerMs)); }

}  // namespace

Machine::Machine(const JobOptions& options, const Layout& layout, int attempt, int64_t begin_ns, int from_step,
                 int to_step)
    : options_(options), layout_(layout), from_step_(from_step), to_step_(to_step), network_(options, layout) {
  for (int i = 0; i < options_.ranks(); ++i) {
    const auto node = static_cast<NodeId>(network_.node_of(i));
    const int32_t pid = 4000 + 40 * i + 10'000 * attempt;
    attempt_.ranks.push_back({.pid = pid,
                              .main = ThreadStates(node, pid, pid, "python3"),
                              .progress = ThreadStates(node, pid, pid + 5, "NCCL Progress")});
    Rank rank{.random = Random(options_.seed, static_cast<uint64_t>(1000 * (attempt + 1) + i))};
    rank.step = from_step_;
    rank.cpu_ns = begin_ns + ms(rank.random.between(0, 50));
    history(i).started_ns = begin_ns - ms(rank.random.between(8'000, 9'000));
    ranks_.push_back(std::move(rank));
    ready_.push_back(i);
  }
}

void Machine::run() {
  do {
    while (!ready_.empty()) {
      const int rank = ready_.front();
      ready_.pop_front();
      advance(rank);
    }
  } while (give_up_waiting());
  for (int i = 0; i < options_.ranks(); ++i) {
    history(i).last_ns = std::max(history(i).last_ns, at(i).cpu_ns);
  }
}

void Machine::advance(int index) {
  Rank& rank = at(index);
  while (!rank.ended && rank.awaited == 0) {
    if (rank.at >= rank.program.size() && !begin_step(index)) {
      rank.ended = true;
      return;
    }
    if (rank.at == rank.program.size() / 2 && !fail_in_step(index)) {
      rank.ended = true;
      return;
    }
    const size_t number = rank.at++;
    rank.ends_ns.push_back(0);
    if (!execute(index, rank.program[number])) {
      rank.ended = true;
    }
  }
}

bool Machine::in_effect(const Fault& fault, int step) const {
  return step >= fault.from && step < fault.to && (step - fault.from) % fault.every == fault.every - 1;
}

void Machine::add_effect(size_t fault, int64_t from_ns, int64_t to_ns) {
  const auto last = std::find_if(effects_.rbegin(), effects_.rend(), [&](const Effect& e) { return e.fault == fault; });
  if (last != effects_.rend() && from_ns - last->to_ns < kNsPerSecond && from_ns >= last->from_ns) {
    last->to_ns = std::max(last->to_ns, to_ns);
    return;
  }
  effects_.push_back({fault, from_ns, to_ns});
}

StepLoad Machine::load_of(int rank, int step) {
  const Layout::Position& position = layout_.positions[static_cast<size_t>(rank)];
  // Ranks that work on one part of the batch have one load.
  Random shared(options_.seed,
                0x10000 + static_cast<uint64_t>(step) * 4096 + static_cast<uint64_t>(position.data_index));
  StepLoad load;
  load.device = std::max(0.5, shared.normal(1, options_.uneven));
  const auto& slow = options_.slow_launchers;
  load.cpu = std::ranges::find(slow, rank) != slow.end() ? 1.5 : 1;
  for (int i = 0; options_.experts && i < 2 * options_.units; ++i) {
    load.experts.push_back(at(rank).random.between(0.5, 1.5));
  }
  return load;
}

/// What a pause of the whole job takes of this rank.
double Machine::pause_ms(const Pause& pause, int rank, int step) const {
  const int middle = options_.steps / 2;
  const bool now = pause.every > 0 ? step > 0 && step % pause.every == 0 : step == middle;
  Random random(options_.seed, 0x20'0000 + static_cast<uint64_t>(step) * 65'536 + static_cast<uint64_t>(rank));
  const int ranks = options_.ranks();
  const int group = std::max(options_.tensor, std::min(2, options_.ranks_per_node));
  bool pauses = false;
  switch (pause.by) {
    case Pause::By::kFirst:
      pauses = rank == 0;
      break;
    case Pause::By::kLast:
      pauses = rank + 1 == ranks;
      break;
    case Pause::By::kGroup:
      pauses = rank < group;
      break;
    case Pause::By::kSome:
      pauses = random.chance(0.3) || rank == ranks / 3;
      break;
  }
  const double spread = pause.by == Pause::By::kSome ? 0.5 : 0.02;
  return now && pauses ? 1000 * pause.seconds * random.between(1 - spread, 1 + spread) : 0;
}

bool Machine::begin_step(int index) {
  Rank& rank = at(index);
  if (rank.step >= to_step_) {
    return false;
  }
  const auto work = [&](double length_ms, bool computes) {
    const int64_t from_ns = rank.cpu_ns;
    rank.cpu_ns += ms(length_ms);
    history(index).main.add(computes ? WaitKind::kOnCpu : WaitKind::kBlocked, from_ns, rank.cpu_ns);
  };
  work(1 + rank.random.exponential(options_.noise_ms + 0.001), true);
  if (rank.step - from_step_ < kWarmUpSteps) {
    work(rank.random.between(0, options_.warm_up_ms) / (1 + rank.step - from_step_), true);
  }
  for (const Pause& pause : options_.pauses) {
    work(pause_ms(pause, index, rank.step), pause.computes);
  }
  late(index, std::nullopt);
  rank.program = program_of(options_, layout_, index, load_of(index, rank.step));
  rank.at = 0;
  rank.ends_ns.clear();
  cross(index);
  return true;
}

/// The step's last collective, and the last one before it of another communicator on the same stream: each of the two
/// kernels waits for ranks whose other one is in its way.
void Machine::cross(int index) {
  Rank& rank = at(index);
  for (size_t i = 0; i < options_.faults.size(); ++i) {
    const Fault& fault = options_.faults[i];
    if (!fault.crosses || fault.rank != index || fault.from != rank.step) {
      continue;
    }
    std::vector<Instruction>& program = rank.program;
    const auto on_main_stream = [&](const Instruction& one) {
      return one.kind == Instruction::Kind::kCollective &&
             layout_.groups[static_cast<size_t>(one.group)].on_main_stream;
    };
    const auto last = std::find_if(program.rbegin(), program.rend(), on_main_stream);
    const auto before = std::find_if(
        last, program.rend(), [&](const Instruction& one) { return on_main_stream(one) && one.group != last->group; });
    if (before != program.rend()) {
      std::iter_swap(last, before);
      add_effect(i, rank.cpu_ns, kNever);
    }
  }
}

void Machine::late(int index, std::optional<int> unit) {
  Rank& rank = at(index);
  for (size_t i = 0; i < options_.faults.size(); ++i) {
    const Fault& fault = options_.faults[i];
    if (fault.kind == FaultKind::kLateRank && fault.rank == index && fault.unit == unit &&
        in_effect(fault, rank.step)) {
      const int64_t from_ns = rank.cpu_ns;
      rank.cpu_ns += ms(fault.ms * rank.random.between(0.95, 1.05));
      history(index).main.add(fault.computes ? WaitKind::kOnCpu : WaitKind::kBlocked, from_ns, rank.cpu_ns);
      add_effect(i, from_ns, rank.cpu_ns);
    }
  }
}

void Machine::die(int index, size_t fault) {
  Rank& rank = at(index);
  history(index).exit_ns = rank.cpu_ns;
  history(index).exit_signal = 9;
  add_effect(fault, rank.cpu_ns, kNever);
}

/// In the middle of a step a rank dies, is stopped, or does not go on. False if it goes no further.
bool Machine::fail_in_step(int index) {
  Rank& rank = at(index);
  for (size_t i = 0; i < options_.faults.size(); ++i) {
    const Fault& fault = options_.faults[i];
    if (fault.rank != index || fault.from != rank.step) {
      continue;
    }
    if (fault.kind == FaultKind::kDeadRank) {
      die(index, i);
      return false;
    }
    if (fault.kind == FaultKind::kMissingCollective && !fault.crosses) {
      history(index).main.add(fault.computes ? WaitKind::kOnCpu : WaitKind::kBlocked, rank.cpu_ns, kNever);
      add_effect(i, rank.cpu_ns, kNever);
      return false;
    }
    if (fault.kind == FaultKind::kProcessStopped && rank.stopped.empty()) {
      const int64_t to_ns = fault.ms > 0 ? rank.cpu_ns + ms(fault.ms) : kNever;
      rank.stopped.emplace_back(rank.cpu_ns, to_ns);
      history(index).stopped.emplace_back(rank.cpu_ns, to_ns);
      history(index).main.add(WaitKind::kStopped, rank.cpu_ns, to_ns);
      history(index).progress.add(WaitKind::kStopped, rank.cpu_ns, to_ns);
      add_effect(i, rank.cpu_ns, to_ns);
      if (to_ns == kNever) {
        return false;
      }
      rank.cpu_ns = to_ns;
    }
  }
  return true;
}

void Machine::launch(int index, double mean_ms) {
  Rank& rank = at(index);
  const int64_t from_ns = rank.cpu_ns;
  rank.cpu_ns += ms(mean_ms + rank.random.exponential(options_.noise_ms + 0.001));
  history(index).main.add(WaitKind::kOnCpu, from_ns, rank.cpu_ns);
}

void Machine::device(Rank& rank, const Instruction& instruction, double extra_ms) {
  const int64_t needs_ns = instruction.needs < 0 ? 0 : rank.ends_ns[static_cast<size_t>(instruction.needs)];
  const double scatter = std::max(0.5, rank.random.normal(1, options_.device_noise));
  rank.cpu_ns += kLaunchNs / 2;
  rank.device_ns = std::max({rank.device_ns, rank.cpu_ns, needs_ns}) + ms(instruction.ms * scatter + extra_ms);
}

bool Machine::execute(int index, const Instruction& instruction) {
  Rank& rank = at(index);
  switch (instruction.kind) {
    case Instruction::Kind::kCpu:
      launch(index, instruction.ms);
      break;
    case Instruction::Kind::kUnit:
      late(index, instruction.unit);
      break;
    case Instruction::Kind::kDevice: {
      double extra_ms = 0;
      for (const Fault& fault : options_.faults) {
        if (fault.kind == FaultKind::kSlowDevice && fault.rank == index && in_effect(fault, rank.step)) {
          const double whole_ms = (options_.forward_ms + options_.backward_ms) * options_.micro_batches;
          extra_ms += fault.ms * instruction.ms / whole_ms * options_.stages;
        }
      }
      device(rank, instruction, extra_ms);
      break;
    }
    case Instruction::Kind::kCollective:
      collective(index, instruction);
      break;
    case Instruction::Kind::kExchange:
      exchange(index, instruction);
      break;
    case Instruction::Kind::kJoin:
      rank.device_ns = std::max(rank.device_ns, std::ranges::max(rank.streams_ns));
      break;
    case Instruction::Kind::kSynchronise:
      synchronise(index);
      return !history(index).stuck;
  }
  return true;
}

size_t Machine::stream_of(int rank, int group) const {
  const Layout::Position& position = layout_.positions[static_cast<size_t>(rank)];
  return group == position.tensor_group     ? 1
         : group == position.data_group     ? 2
         : group == position.pipeline_group ? 3
                                            : 0;
}

size_t Machine::add_call(int index, const Instruction& instruction, int64_t kernel_ns) {
  const std::vector<int>& ranks = layout_.groups[static_cast<size_t>(instruction.group)].ranks;
  const auto position = std::ranges::find(ranks, index) - ranks.begin();
  std::vector<Call>& calls = history(index).calls;
  calls.push_back({.group = instruction.group,
                   .op = instruction.op,
                   .position = static_cast<int>(position),
                   .count = instruction.count,
                   .arrival_ns = at(index).cpu_ns,
                   .kernel_ns = kernel_ns});
  return calls.size() - 1;
}

void Machine::collective(int index, const Instruction& instruction) {
  Rank& rank = at(index);
  const Group& group = layout_.groups[static_cast<size_t>(instruction.group)];
  if (group.ranks.size() < 2) {
    return;
  }
  const int64_t stream_ns = rank.streams_ns[stream_of(index, instruction.group)];
  const int64_t device_ns = instruction.after_device || group.on_main_stream ? rank.device_ns : 0;
  const int64_t kernel_ns = std::max({rank.cpu_ns + kLaunchNs, device_ns, stream_ns});
  const size_t call = add_call(index, instruction, kernel_ns);
  rank.cpu_ns += kLaunchNs;
  bool mismatched = false;
  for (size_t i = 0; i < options_.faults.size(); ++i) {
    const Fault& fault = options_.faults[i];
    const bool first = std::ranges::none_of(effects_, [&](const Effect& effect) { return effect.fault == i; });
    if (fault.kind == FaultKind::kMismatchedCollective && fault.rank == index && fault.from == rank.step && first &&
        instruction.count > 1) {
      history(index).calls[call].count /= 2;
      mismatched = true;
      add_effect(i, rank.cpu_ns, kNever);
    }
  }
  const auto member = static_cast<size_t>(history(index).calls[call].position);
  join(index, {instruction.group, -1, -1}, member, group.ranks.size(), call, mismatched);
}

void Machine::exchange(int index, const Instruction& instruction) {
  Rank& rank = at(index);
  const int64_t kernel_ns =
      std::max({rank.cpu_ns + kLaunchNs, rank.device_ns, rank.streams_ns[stream_of(index, instruction.group)]});
  ++library_groups_;
  std::vector<size_t> calls;
  for (const Instruction::Peer& peer : instruction.peers) {
    calls.push_back(add_call(index, instruction, kernel_ns));
    Call& call = history(index).calls[calls.back()];
    call.op = peer.send ? Operation::kSend : Operation::kRecv;
    call.peer = peer.position;
    call.library_group = library_groups_;
  }
  rank.cpu_ns += kLaunchNs;
  for (const size_t number : calls) {
    const Call& call = history(index).calls[number];
    const bool send = call.op == Operation::kSend;
    const int src = send ? call.position : call.peer;
    const int dst = send ? call.peer : call.position;
    join(index, {instruction.group, src, dst}, send ? 0 : 1, 2, number, false);
  }
}

void Machine::join(int index, const ChannelKey& key, size_t member, size_t members, size_t call, bool mismatched) {
  Channel& channel = channels_[key];
  channel.next.resize(members);
  const int64_t number = channel.next[member]++;
  history(index).calls[call].number = number;
  const Joined joined{index, call, at(index).at - 1};
  ++at(index).awaited;
  if (number < channel.first) {  // the others have given up
    resolve(key, {{joined}, true});
    return;
  }
  const auto position = static_cast<size_t>(number - channel.first);
  channel.meetings.resize(std::max(channel.meetings.size(), position + 1));
  Meeting& meeting = channel.meetings[position];
  meeting.joined.push_back(joined);
  meeting.mismatched = meeting.mismatched || mismatched;
  if (position == 0 && meeting.joined.size() == members) {
    const Meeting done = std::move(meeting);
    channel.meetings.pop_front();
    ++channel.first;
    resolve(key, done);
  }
}

/// Which calls moved the data of the newest flows.
void Machine::note_calls(const Meeting& meeting, size_t first_flow) {
  if (first_flow == attempt_.flows.size()) {
    return;
  }
  call_of_.resize(ranks_.size());
  for (const Joined& one : meeting.joined) {
    call_of_[static_cast<size_t>(one.rank)] = static_cast<uint32_t>(one.call);
  }
  for (size_t i = first_flow; i < attempt_.flows.size(); ++i) {
    Flow& flow = attempt_.flows[i];
    flow.src_call = call_of_[static_cast<size_t>(flow.src)];
    flow.dst_call = call_of_[static_cast<size_t>(flow.dst)];
  }
}

/// Sets the end of the calls that met, and lets their ranks go on.
void Machine::resolve(const ChannelKey& key, const Meeting& meeting) {
  int64_t begin_ns = 0;
  for (const Joined& one : meeting.joined) {
    begin_ns = std::max(begin_ns, history(one.rank).calls[one.call].kernel_ns);
  }
  const std::vector<int>& ranks = layout_.groups[static_cast<size_t>(key[0])].ranks;
  int64_t end_ns = kNever;
  if (!meeting.mismatched && begin_ns < kNever) {
    const Joined& one = meeting.joined.front();
    const Call& call = history(one.rank).calls[one.call];
    const int64_t bytes =
        payload_bytes(call.op, call.count, nccl_datatype_size(kFloat32), static_cast<int>(ranks.size()));
    const int step = at(one.rank).step;
    const size_t first_flow = attempt_.flows.size();
    end_ns = key[1] < 0 ? network_.collective(key[0], call.op, bytes, begin_ns, step, attempt_)
                        : network_.send(key[0], ranks[static_cast<size_t>(key[1])], ranks[static_cast<size_t>(key[2])],
                                        bytes, begin_ns, step, attempt_);
    note_calls(meeting, first_flow);
  }
  for (const Joined& one : meeting.joined) {
    for (const auto& [from_ns, to_ns] : at(one.rank).stopped) {
      if (from_ns < end_ns && to_ns > begin_ns && end_ns < kNever) {
        end_ns = to_ns == kNever ? kNever : end_ns + to_ns - std::max(from_ns, begin_ns);
      }
    }
  }
  const bool on_main_stream = layout_.groups[static_cast<size_t>(key[0])].on_main_stream;
  for (const Joined& one : meeting.joined) {
    Rank& rank = at(one.rank);
    const int64_t own_ns = end_ns >= kNever ? kNever : end_ns + ms(rank.random.exponential(0.02));
    history(one.rank).calls[one.call].end_ns = own_ns;
    int64_t& stream_ns = on_main_stream || key[1] >= 0 ? rank.device_ns : rank.streams_ns[stream_of(one.rank, key[0])];
    stream_ns = std::max(stream_ns, own_ns);
    rank.ends_ns[one.instruction] = own_ns;
    if (--rank.awaited == 0) {
      ready_.push_back(one.rank);
    }
  }
}

/// No rank can go on: calls whose ranks have not all come never end. The others launch what they can.
bool Machine::give_up_waiting() {
  bool any = false;
  for (auto& [key, channel] : channels_) {
    for (const Meeting& meeting : std::exchange(channel.meetings, {})) {
      ++channel.first;
      if (!meeting.joined.empty()) {
        any = true;
        resolve(key, {meeting.joined, true});
      }
    }
  }
  hung_ = hung_ || any;
  return any;
}

void Machine::synchronise(int index) {
  Rank& rank = at(index);
  RankHistory& own = history(index);
  const int64_t from_ns = rank.cpu_ns;
  const int64_t done_ns = std::max({rank.cpu_ns, rank.device_ns, std::ranges::max(rank.streams_ns)});
  const WaitKind waits = options_.spins ? WaitKind::kOnCpu : WaitKind::kBlocked;
  if (done_ns >= kNever) {
    own.main.add(waits, from_ns, kNever);
    own.stuck = true;
    hung_ = true;
    return;
  }
  rank.cpu_ns = done_ns + kLaunchNs + ms(rank.random.exponential(0.03));
  own.main.add(waits, from_ns, rank.cpu_ns);
  for (; rank.first_unsynchronised < own.calls.size(); ++rank.first_unsynchronised) {
    own.calls[rank.first_unsynchronised].sync_ns = rank.cpu_ns;
  }
  for (size_t i = 0; i < options_.faults.size(); ++i) {
    const Fault& fault = options_.faults[i];
    const bool steady = fault.kind == FaultKind::kSlowDevice || fault.kind == FaultKind::kSlowLink ||
                        fault.kind == FaultKind::kPacketLoss || is_of_fabric(fault.kind);
    if (steady && fault.rank == index && in_effect(fault, rank.step)) {
      add_effect(i, from_ns, rank.cpu_ns);
    }
  }
  ++rank.step;
  ++own.steps;
}

}  // namespace stalltrace::simulation
