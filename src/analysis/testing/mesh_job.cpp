// SPDX-License-Identifier: Apache-2.0
#include "analysis/testing/mesh_job.h"

#include <algorithm>
#include <utility>

namespace stalltrace::analysis {
namespace {

constexpr int64_t kOriginNs = 1'800'000'000LL * kNsPerSecond;
constexpr int32_t kFloat32 = 7;  // ncclFloat32
constexpr int64_t kActivations = 1'048'576;
constexpr int64_t kGradients = 6'553'600;

int64_t ms(double value) { return static_cast<int64_t>(value * static_cast<double>(kNsPerMs)); }
int32_t pid_of(int rank) { return 1000 + rank; }
CommHash hash_of(int id) { return 0x6d65'0000'0000'0000ULL + static_cast<CommHash>(id); }
uint64_t pointer_of(int id) { return 0xc000 + static_cast<uint64_t>(id) * 0x100; }

}  // namespace

MeshJob::MeshJob(MeshJobOptions options)
    : options_(options), random_(options.seed), ranks_(static_cast<size_t>(options.tensor * options.data)) {
  int id = 0;
  for (int i = 0; i < options_.data; ++i) {
    tensor_groups_.push_back({++id, i * options_.tensor, 1, options_.tensor});
  }
  for (int i = 0; i < options_.tensor; ++i) {
    data_groups_.push_back({++id, i, options_.tensor, options_.data});
  }
  world_ = {++id, 0, 1, ranks()};
  pace_.resize(tensor_groups_.size(), 1);
  describe();
  for (int number = 0; number < options_.steps; ++number) {
    step(number);
  }
}

void MeshJob::describe() {
  for (int rank = 0; rank < ranks(); ++rank) {
    const NodeId node = node_of(rank);
    if (rank % options_.tensor == 0) {
      Node row{.node_id = node, .name = "node" + std::to_string(node - 1), .boot_id = "boot"};
      row.started_ns = kOriginNs - kNsPerSecond;
      source_.accept(row);
    }
    Process process{.node_id = node, .pid = pid_of(rank), .exe = "/usr/bin/python3"};
    process.start_ns = kOriginNs - 60 * kNsPerSecond;
    process.rank = rank;
    process.rank_source = RankSource::kEnvironment;
    process.world_size = ranks();
    process.job_id = "job";
    source_.accept(process);
    ranks_[static_cast<size_t>(rank)].cpu_ns = kOriginNs;
  }
}

int64_t MeshJob::noise_ns() {
  return options_.noise_ms <= 0 ? 0 : ms(std::exponential_distribution<>(1 / options_.noise_ms)(random_));
}

/// All of its ranks launch it; it runs when the last of them has come to it.
void MeshJob::collective(Communicator& group, Operation op, int64_t count, bool blocking) {
  int64_t start_ns = 0;
  for (int i = 0; i < group.ranks; ++i) {
    const int who = group.first + i * group.stride;
    Rank& rank = ranks_[static_cast<size_t>(who)];
    rank.cpu_ns += ms(0.02);
    const int64_t kernel_ns = std::max({rank.cpu_ns, rank.device_ns, blocking ? 0 : rank.stream_ns});
    start_ns = std::max(start_ns, kernel_ns);
    Collective call{.event_id = make_event_id(node_of(who), ++events_), .node_id = node_of(who)};
    call.op = op;
    call.timestamp_ns = rank.cpu_ns;
    call.launch_ns = 20 * kNsPerUs;
    call.completion = options_.plugin ? Completion::kProfiler : Completion::kSync;
    if (options_.plugin) {
      call.kernel_start_ns = kernel_ns;
    }
    call.seq = group.calls;
    call.comm_ptr = pointer_of(group.id);
    call.pid = call.tid = pid_of(who);
    call.count = count;
    call.datatype = kFloat32;
    call.bytes = payload_bytes(op, count, nccl_datatype_size(kFloat32), group.ranks);
    if (options_.attached_late) {
      const int64_t missed = (node_of(who) * 7) % 13;  // its node's tracer began with the third call or so
      call.seq = group.calls - missed;
      call.rank = who;
      call.nranks = ranks();
      call.rank_source = RankSource::kEnvironment;
    } else {
      call.comm_id_hash = hash_of(group.id);
      call.rank = i;
      call.nranks = group.ranks;
      call.rank_source = RankSource::kInit;
    }
    rank.calls.push_back(call);
  }
  ++group.calls;
  const bool slow = !blocking && group.calls == options_.slow_call;
  const int64_t end_ns = start_ns + ms(options_.transfer_ms + (slow ? options_.slow_ms : 0)) + noise_ns() / 4;
  for (int i = 0; i < group.ranks; ++i) {
    Rank& rank = ranks_[static_cast<size_t>(group.first + i * group.stride)];
    (blocking ? rank.device_ns : rank.stream_ns) = end_ns;
    rank.own_end_ns.push_back(end_ns);
  }
}

void MeshJob::layer(bool backward, bool last, double work) {
  for (int who = 0; who < ranks(); ++who) {
    Rank& rank = ranks_[static_cast<size_t>(who)];
    rank.cpu_ns += ms(options_.launch_ms) + noise_ns();
    const double pace = pace_[static_cast<size_t>(who / options_.tensor)];
    const double load = options_.experts ? std::uniform_real_distribution<>(0.5, 1.5)(random_) : 1;
    rank.device_ns =
        std::max(rank.device_ns, rank.cpu_ns) + ms(options_.compute_ms * work * pace * load * (backward ? 2 : 1));
  }
  for (Communicator& group : tensor_groups_) {
    if (options_.experts) {
      collective(group, Operation::kAllToAll, kActivations / group.ranks, true);
      collective(group, Operation::kAllToAll, kActivations / group.ranks, true);
    } else {
      collective(group, Operation::kAllReduce, kActivations, true);
    }
  }
  for (Communicator& group : data_groups_) {
    if (backward && last) {
      collective(group, Operation::kAllReduce, kGradients, false);
    }
  }
}

void MeshJob::synchronise() {
  for (Rank& rank : ranks_) {
    rank.cpu_ns = std::max({rank.cpu_ns, rank.device_ns, rank.stream_ns}) + 20 * kNsPerUs + noise_ns() / 10;
    for (size_t i = 0; i < rank.calls.size(); ++i) {
      Collective& call = rank.calls[i];
      call.duration_ns = (options_.plugin ? rank.own_end_ns[i] : rank.cpu_ns) - call.timestamp_ns;
      if (options_.plugin) {
        call.kernel_end_ns = rank.own_end_ns[i];
      }
      if (*call.seq >= 0) {
        source_.accept(call);
      }
    }
    rank.calls.clear();
    rank.own_end_ns.clear();
  }
}

void MeshJob::evaluate() {
  std::normal_distribution<> scatter(1, 0.01);
  for (int who = 0; who < ranks(); ++who) {
    if (who == 0 || !options_.evaluate_rank0) {
      ranks_[static_cast<size_t>(who)].cpu_ns += ms(options_.evaluate_ms * scatter(random_));
    }
  }
  collective(world_, Operation::kAllReduce, 1, true);
  synchronise();
}

void MeshJob::step(int number) {
  std::normal_distribution<> scatter(1, options_.uneven);
  for (double& pace : pace_) {
    pace = std::max(0.5, scatter(random_));
  }
  for (Rank& rank : ranks_) {
    rank.cpu_ns += ms(1) + noise_ns();
  }
  if (number == options_.slow_device_step) {
    ranks_[1].device_ns = std::max(ranks_[1].device_ns, ranks_[1].cpu_ns) + ms(options_.slow_ms);
  }
  for (int micro = 0; micro < options_.micro_batches; ++micro) {
    for (int i = 0; i < options_.layers; ++i) {
      layer(false, false, 1);
    }
    for (int i = 0; i < options_.layers; ++i) {
      layer(true, micro + 1 == options_.micro_batches, 1);
    }
  }
  collective(world_, Operation::kAllReduce, 2, true);  // the norm of all gradients
  synchronise();
  if (options_.evaluate_every > 0 && number % options_.evaluate_every == options_.evaluate_every - 1) {
    evaluate();
  }
}

}  // namespace stalltrace::analysis
