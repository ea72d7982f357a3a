// SPDX-License-Identifier: Apache-2.0
#include "analysis/testing/gpu_job.h"

#include <algorithm>
#include <string>
#include <utility>

namespace stalltrace::analysis {
namespace {

constexpr CommHash kHash = 0x6470'0000'0000'0001ULL;
constexpr int32_t kFloat32 = 7;  // ncclFloat32
constexpr int64_t kCount = 6'553'600;

int64_t ms(double value) { return static_cast<int64_t>(value * static_cast<double>(kNsPerMs)); }

}  // namespace

GpuJob::GpuJob(GpuJobOptions options)
    : options_(std::move(options)), random_(options_.seed), ranks_(static_cast<size_t>(options_.ranks)) {
  describe();
  for (int number = 0; number < options_.steps; ++number) {
    step(number);
  }
}

void GpuJob::describe() {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (rank % options_.ranks_per_node == 0) {
      Node node{.node_id = node_of(rank), .name = "node" + std::to_string(node_of(rank) - 1), .boot_id = "boot"};
      node.started_ns = kOriginNs - kNsPerSecond;
      source_.accept(node);
    }
    Process process{.node_id = node_of(rank), .pid = pid_of(rank), .exe = "/usr/bin/python3"};
    process.rank = rank;
    process.rank_source = RankSource::kEnvironment;
    process.world_size = options_.ranks;
    process.job_id = "job";
    source_.accept(process);
    Communicator communicator{.node_id = node_of(rank), .pid = pid_of(rank), .comm_ptr = 0xc000, .comm_id_hash = kHash};
    communicator.rank = rank;
    communicator.nranks = options_.ranks;
    communicator.rank_source = RankSource::kInit;
    source_.accept(communicator);
  }
}

int64_t GpuJob::noise_ns() {
  return options_.noise_ms <= 0 ? 0 : ms(std::exponential_distribution<>(1 / options_.noise_ms)(random_));
}

/// Every rank launches work for its device, which begins when the device is free and `needs_ns` has come.
void GpuJob::compute(double device_ms, int64_t needs_ns) {
  std::normal_distribution<> scatter(1, options_.device_noise);
  const double common = scatter(random_);  // the same batch shapes on all
  for (Rank& rank : ranks_) {
    const double own = options_.device_noise > 0 ? scatter(random_) : 1;
    rank.device_ns = std::max({rank.device_ns, rank.cpu_ns, needs_ns}) + ms(device_ms * common * own);
  }
}

/// Every rank launches a collective; it runs when the last rank's stream has come to it. Returns its end.
int64_t GpuJob::collective(Operation op, bool after_compute, double extra_ms) {
  int64_t start_ns = stream_ns_;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const NodeId node = node_of(static_cast<int>(i));
    start_ns = std::max(start_ns, after_compute ? std::max(rank.cpu_ns, rank.device_ns) : rank.cpu_ns);
    Collective call{.event_id = make_event_id(node, ++events_), .node_id = node};
    call.op = op;
    call.timestamp_ns = rank.cpu_ns;
    call.launch_ns = 20 * kNsPerUs;
    call.completion = Completion::kSync;
    call.seq = calls_;
    call.rank = static_cast<int32_t>(i);
    call.rank_source = RankSource::kInit;
    call.nranks = options_.ranks;
    call.comm_id_hash = kHash;
    call.comm_ptr = 0xc000;
    call.pid = call.tid = pid_of(static_cast<int>(i));
    call.count = op == Operation::kAllReduce ? kCount : kCount / options_.ranks;
    call.datatype = kFloat32;
    call.bytes = payload_bytes(op, *call.count, nccl_datatype_size(kFloat32), options_.ranks);
    rank.calls.push_back(call);
  }
  ++calls_;
  stream_ns_ = start_ns + ms(options_.transfer_ms + extra_ms) + noise_ns() / 4;
  return stream_ns_;
}

/// All ranks wait for their devices: that ends all calls.
void GpuJob::synchronise() {
  for (Rank& rank : ranks_) {
    rank.cpu_ns = std::max({rank.cpu_ns, rank.device_ns, stream_ns_}) + 20 * kNsPerUs + noise_ns() / 10;
    for (Collective& call : rank.calls) {
      call.duration_ns = rank.cpu_ns - call.timestamp_ns;
      source_.accept(call);
    }
    rank.calls.clear();
    now_ns_ = std::max(now_ns_, rank.cpu_ns);
  }
}

void GpuJob::step(int number) {
  for (int i = 0; i < options_.ranks; ++i) {
    Rank& rank = ranks_[static_cast<size_t>(i)];
    rank.cpu_ns = std::max(rank.cpu_ns, kOriginNs) + ms(1) + noise_ns();
  }
  const auto pause = [&](int unit) {
    const bool late = options_.late_rank >= 0 && number % options_.late_every == options_.late_every - 1;
    if (late && unit == options_.late_unit) {
      ranks_[static_cast<size_t>(options_.late_rank)].cpu_ns += ms(options_.late_ms);
    }
  };
  pause(-1);
  const auto launch = [&](double cpu_ms) {
    for (int i = 0; i < options_.ranks; ++i) {
      const auto& slow = options_.slow_launchers;
      const double pace = std::find(slow.begin(), slow.end(), i) != slow.end() ? 1.5 : 1;
      ranks_[static_cast<size_t>(i)].cpu_ns += ms(cpu_ms * pace) + noise_ns();
    }
  };
  const auto extra_ms = [&](int unit) {
    const bool lossy = number % options_.loss_every == options_.loss_every - 1 && unit == options_.units / 2;
    return lossy ? options_.loss_ms : 0;
  };
  const int units = options_.units;
  if (options_.shape == GpuJobOptions::Shape::kDataParallel) {
    for (int unit = 0; unit < units; ++unit) {
      launch(options_.forward_ms / units * options_.launch_ms / options_.compute_ms);
      compute(options_.forward_ms / units, 0);
    }
    for (int unit = 0; unit < units; ++unit) {
      pause(unit);
      launch(options_.launch_ms);
      compute(options_.compute_ms, 0);
      collective(Operation::kAllReduce, true, extra_ms(unit));
    }
    synchronise();
    return;
  }
  for (const bool backward : {false, true}) {
    int64_t gathered_ns = collective(Operation::kAllGather, false, 0);
    for (int unit = 0; unit < units; ++unit) {
      if (backward) {
        pause(unit);
      }
      launch(options_.launch_ms);
      const int64_t needs_ns = gathered_ns;
      if (unit + 1 < units) {
        gathered_ns = collective(Operation::kAllGather, false, backward ? 0 : extra_ms(unit));
      }
      compute(backward ? options_.compute_ms : options_.forward_ms / units, needs_ns);
      if (backward) {
        collective(Operation::kReduceScatter, true, 0);
      }
    }
  }
  synchronise();
}

}  // namespace stalltrace::analysis
