// SPDX-License-Identifier: Apache-2.0
#include "lab/simulation/recording/recorder.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "lab/simulation/job.h"
#include "lab/simulation/random.h"

namespace stalltrace::simulation {
namespace {

constexpr int32_t kFloat32 = 7;  // ncclFloat32
constexpr double kUsualDrift = 20e-6;
constexpr int64_t kSetUpNs = 400 * kNsPerMs;
/// From the beginning of a process to the creation of its communicators.
constexpr int64_t kCreatedNs = 5 * kNsPerSecond;
/// From the beginning of an agent that is there first to the first step.
constexpr int64_t kEarlyNs = 9'500 * kNsPerMs;

template <typename T>
void deliver(std::vector<T>& rows, EventSink& sink) {
  std::ranges::stable_sort(rows, {}, &T::timestamp_ns);
  for (T& row : rows) {
    sink.accept(std::move(row));
  }
}

uint64_t pointer_of(int group) { return 0x7f00'0000'c000 + static_cast<uint64_t>(group) * 0x4000; }

}  // namespace

Recorder::Recorder(const JobOptions& options, const Layout& layout, const History& history, int node, int64_t to_ns)
    : options_(options), layout_(layout), history_(history), node_(node) {
  Random random(options.seed, 0x30'0000 + static_cast<uint64_t>(node));
  clock_.error_ns = static_cast<int64_t>(random.between(-1, 1) * options.clock_error_ms * 1e6);
  const double drift = options.clock_drift_ppm > 0 ? options.clock_drift_ppm / 1e6 : kUsualDrift;
  if (options.clock_error_ms > 0 || options.clock_drift_ppm > 0) {
    clock_.drift = random.between(-drift, drift);
  }
  if (const auto wrong = options.clocks.find(node); wrong != options.clocks.end()) {
    clock_ = {static_cast<int64_t>(wrong->second.ahead_s * 1e9), wrong->second.drift_ppm / 1e6};
  }
  const auto late_ns = static_cast<int64_t>((options.attach_s + random.between(0, 2)) * 1e9);
  from_ns_ = history.first_step_ns + (options.attach_s > 0 ? late_ns : -kEarlyNs);
  to_ns_ = to_ns + random.below(200 * kNsPerMs);
}

int64_t Recorder::clock_offset_ns() const { return kOriginNs - 1000 * kNsPerSecond * (node_ + 1) + clock_.error_ns; }

CommHash Recorder::hash_of(int attempt, int group) const {
  return splitmix64_fold(options_.seed * 16 + static_cast<uint64_t>(attempt), static_cast<uint64_t>(group) + 1);
}

bool Recorder::knows_communicators(const RankHistory& rank) const {
  return options_.plugin || rank.started_ns + kCreatedNs >= from_ns_;
}

RankSource Recorder::rank_source(const RankHistory& rank) const {
  return rank.started_ns + kCreatedNs >= from_ns_ ? RankSource::kInit
         : options_.plugin                        ? RankSource::kPlugin
         : options_.marked                        ? RankSource::kMemory
                                                  : RankSource::kEnvironment;
}

void Recorder::write(EventSink& sink) const {
  write_node(sink);
  write_processes(sink);
  const std::map<ConnectionKey, uint64_t> known = connections();
  write_connections(known, sink);
  const CallIds ids = write_calls(sink);
  if (options_.tcp) {
    write_tcp_events(known, sink);
    write_tcp_samples(known, sink);
  }
  if (options_.waits) {
    write_waits(sink);
  }
  if (options_.all_evidence || options_.ports) {
    write_port_counters(sink);
  }
  if (!options_.all_evidence) {
    return;
  }
  if (options_.tcp) {
    write_tcp_bursts(known, sink);
  }
  if (options_.plugin) {
    write_transfers(ids, sink);
  }
  write_host_samples(sink);
  write_stacks(sink);
}

void Recorder::write_node(EventSink& sink) const {
  Node row{.node_id = Job::node_id(node_), .name = Job::node_name(node_), .hostname = Job::node_name(node_)};
  row.boot_id = Job::boot_id(node_);
  row.kernel = "6.1.0";
  row.agent_version = "simulated";
  row.started_ns = to_clock(from_ns_);
  row.ended_ns = to_clock(to_ns_);
  row.clock_offset_ns = clock_offset_ns();
  sink.accept(row);
}

void Recorder::write_processes(EventSink& sink) const {
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    for (int rank = 0; rank < options_.ranks(); ++rank) {
      const RankHistory& own = of(attempt, rank);
      if (!here(rank) || own.started_ns > to_ns_ || own.exit_ns.value_or(kNever) < from_ns_) {
        continue;
      }
      Process process{.node_id = Job::node_id(node_), .pid = own.pid, .exe = "/usr/bin/python3"};
      process.start_ns = to_clock(own.started_ns);
      process.cmdline = "python3 train.py";
      process.rank = rank;
      process.rank_source = RankSource::kEnvironment;
      process.local_rank = rank % options_.ranks_per_node;
      process.world_size = options_.ranks();
      process.job_id = "simulated";
      if (own.exit_ns && *own.exit_ns < to_ns_) {
        process.exit_ns = to_clock(*own.exit_ns);
        if (own.exit_signal != 0) {
          process.exit_signal = own.exit_signal;
        } else {
          process.exit_code = own.exit_code;
        }
      }
      sink.accept(process);
      for (int group = 0; group < static_cast<int>(layout_.groups.size()); ++group) {
        const std::vector<int>& ranks = layout_.groups[static_cast<size_t>(group)].ranks;
        const auto position = std::ranges::find(ranks, rank);
        if (position == ranks.end() || ranks.size() < 2) {
          continue;
        }
        Communicator row{.node_id = process.node_id, .pid = own.pid, .comm_ptr = pointer_of(group)};
        if (knows_communicators(own)) {
          row.comm_id_hash = hash_of(attempt, group);
          row.rank = static_cast<int32_t>(position - ranks.begin());
          row.nranks = static_cast<int32_t>(ranks.size());
          row.rank_source = rank_source(own);
          row.created_ns = to_clock(own.started_ns + kCreatedNs);
        } else {
          row.created_ns = to_clock(from_ns_);
          row.nccl_comm_hash = options_.marked ? hash_of(attempt, group) : 0;
          row.rank = options_.marked ? static_cast<int32_t>(position - ranks.begin()) : rank;
          row.nranks = options_.marked ? static_cast<int32_t>(ranks.size()) : options_.ranks();
          row.rank_source = rank_source(own);
          row.calls_before = options_.marked ? calls_before(own, group) : std::nullopt;
        }
        sink.accept(row);
      }
    }
  }
}

/// As NCCL counts them, if it counts all; known from two readings.
std::optional<int64_t> Recorder::calls_before(const RankHistory& own, int group) const {
  int64_t before = 0;
  int64_t since = 0;
  for (const Call& call : own.calls) {
    if (call.group != group || is_point_to_point(call.op)) {
      continue;
    }
    if (call.op == Operation::kAllToAll) {
      return std::nullopt;
    }
    ++(call.arrival_ns < from_ns_ ? before : since);
  }
  return since < 2 ? std::nullopt : std::optional(before);
}

/// What the tracer knows of a call besides its end.
Collective Recorder::row_of(int rank, const RankHistory& own, const Call& call) const {
  const std::vector<int>& ranks = layout_.groups[static_cast<size_t>(call.group)].ranks;
  Collective row{.node_id = Job::node_id(node_)};
  row.op = call.op;
  row.timestamp_ns = row.called_ns = to_clock(call.arrival_ns);
  row.launch_ns = 20 * kNsPerUs;
  row.comm_ptr = pointer_of(call.group);
  row.pid = row.tid = own.pid;
  row.count = call.count;
  row.datatype = kFloat32;
  row.return_code = 0;
  row.group_id = call.library_group;
  row.stream = 0x5500 + static_cast<uint64_t>(call.group);
  if (options_.all_evidence) {
    row.stack_id = stack_id_of(call_site_of(call.op));
  }
  if (call.op != Operation::kSend && call.op != Operation::kRecv) {
    row.reduce_op = 0;
  } else {
    row.peer = call.peer;
  }
  if (knows_communicators(own) || options_.marked) {
    row.rank = call.position;
    row.nranks = static_cast<int32_t>(ranks.size());
    row.rank_source = rank_source(own);
  } else {
    row.rank = rank;
    row.nranks = options_.ranks();
    row.rank_source = rank_source(own);
  }
  row.bytes = payload_bytes(call.op, call.count, nccl_datatype_size(kFloat32), *row.nranks);
  return row;
}

void Recorder::end_row(const RankHistory& own, const Call& call, Collective& row) const {
  const int64_t seen_to_ns = std::min(to_ns_, own.exit_ns.value_or(kNever));
  const int64_t end_ns = options_.plugin ? call.end_ns : call.sync_ns;
  if (options_.plugin && call.kernel_ns < seen_to_ns) {
    row.kernel_start_ns = to_clock(call.kernel_ns);
  }
  if (end_ns >= seen_to_ns) {
    return;
  }
  row.duration_ns = to_clock(end_ns) - row.timestamp_ns;
  row.completion = options_.plugin ? Completion::kProfiler : Completion::kSync;
  if (options_.plugin) {
    row.kernel_end_ns = to_clock(end_ns);
  }
}

void Recorder::add_set_up(int attempt, int rank, std::vector<Collective>& rows) const {
  const RankHistory& own = of(attempt, rank);
  for (int group = 0; group < static_cast<int>(layout_.groups.size()); ++group) {
    const std::vector<int>& ranks = layout_.groups[static_cast<size_t>(group)].ranks;
    const auto position = std::ranges::find(ranks, rank);
    const int64_t at_ns = own.started_ns + kCreatedNs;
    if (position == ranks.end() || ranks.size() < 2 || at_ns < from_ns_ || at_ns + kSetUpNs > to_ns_) {
      continue;
    }
    const Call call{.group = group, .position = static_cast<int>(position - ranks.begin()), .arrival_ns = at_ns};
    Collective row = row_of(rank, own, call);
    row.op = Operation::kCommInitRank;
    row.duration_ns = row.launch_ns = kSetUpNs;
    row.completion = Completion::kCall;
    row.comm_id_hash = hash_of(attempt, group);
    row.stack_id = 0;
    row.count.reset();
    row.datatype.reset();
    row.reduce_op.reset();
    row.bytes = 0;
    row.stream = 0;
    rows.push_back(row);
  }
}

void Recorder::add_calls(int attempt, int rank, std::vector<Collective>& rows, std::vector<uint32_t>& numbers) const {
  const RankHistory& own = of(attempt, rank);
  if (own.exit_ns.value_or(kNever) < from_ns_) {  // no agent reads what it left
    return;
  }
  const int64_t from_ns = options_.plugin ? 0 : from_ns_;
  std::map<std::tuple<int, Operation, int>, int64_t> first;  // the number of the first call that was seen
  for (uint32_t i = 0; i < own.calls.size(); ++i) {
    const Call& call = own.calls[i];
    if (call.arrival_ns < from_ns || call.arrival_ns >= to_ns_ || call.arrival_ns >= own.exit_ns.value_or(kNever)) {
      continue;
    }
    const bool pair = is_point_to_point(call.op);
    const auto seen = first.try_emplace({call.group, pair ? call.op : Operation::kAllReduce, call.peer}, call.number);
    Collective row = row_of(rank, own, call);
    row.seq = call.number - (knows_communicators(own) ? 0 : seen.first->second);
    row.comm_id_hash = knows_communicators(own) ? hash_of(attempt, call.group) : 0;
    end_row(own, call, row);
    rows.push_back(row);
    numbers.push_back(i);
  }
}

Recorder::CallIds Recorder::write_calls(EventSink& sink) const {
  struct Made {
    Collective row;
    EventId* id = nullptr;  // where it is kept; null: not of a call
  };
  CallIds ids{.first_rank = node_ * options_.ranks_per_node};
  std::vector<Made> made;
  ids.ids.resize(history_.attempts.size());
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    std::vector<std::vector<EventId>>& of_ranks = ids.ids[static_cast<size_t>(attempt)];
    of_ranks.resize(static_cast<size_t>(options_.ranks_per_node));
    for (int i = 0; i < options_.ranks_per_node; ++i) {
      const int rank = ids.first_rank + i;
      std::vector<EventId>& of_calls = of_ranks[static_cast<size_t>(i)];
      of_calls.resize(of(attempt, rank).calls.size());
      std::vector<Collective> rows;
      std::vector<uint32_t> numbers;
      add_set_up(attempt, rank, rows);
      const size_t first = rows.size();
      add_calls(attempt, rank, rows, numbers);
      for (size_t row = 0; row < rows.size(); ++row) {
        made.push_back({std::move(rows[row]), row < first ? nullptr : &of_calls[numbers[row - first]]});
      }
    }
  }
  std::ranges::stable_sort(made, {}, [](const Made& one) { return one.row.timestamp_ns; });
  uint64_t number = 0;
  for (Made& one : made) {
    one.row.event_id = make_event_id(Job::node_id(node_), ++number);
    if (one.id != nullptr) {
      *one.id = one.row.event_id;
    }
    sink.accept(std::move(one.row));
  }
  return ids;
}

void Recorder::write_waits(EventSink& sink) const {
  std::vector<WaitSpan> rows;
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    for (int rank = 0; rank < options_.ranks(); ++rank) {
      if (here(rank)) {
        const RankHistory& own = of(attempt, rank);
        const int64_t to_ns = std::min(to_ns_, own.exit_ns.value_or(kNever));
        own.main.write(rows, 0, from_ns_, to_ns);
        own.progress.write(rows, 0, from_ns_, to_ns);
      }
    }
  }
  for (WaitSpan& row : rows) {
    row.node_id = Job::node_id(node_);
    row.timestamp_ns = to_clock(row.timestamp_ns);
  }
  deliver(rows, sink);
}

}  // namespace stalltrace::simulation
