// SPDX-License-Identifier: Apache-2.0
#include "analysis/testing/synthetic_cluster.h"

#include <algorithm>

namespace stalltrace::analysis {
namespace {

constexpr int64_t kSampleEveryNs = 100 * kNsPerMs;
constexpr CommHash kRingHash = 0x1234'5678'9abc'def0ULL;
constexpr int64_t kBucketBytes = 1 << 20;

int64_t milliseconds(double value) { return static_cast<int64_t>(value * static_cast<double>(kNsPerMs)); }
int64_t seconds(double value) { return milliseconds(std::min(value, 1e8) * 1000); }

}  // namespace

SyntheticJob::SyntheticJob(JobOptions options) : options_(std::move(options)), random_(options_.seed) {
  options_.clock_offsets_ns.resize(static_cast<size_t>(options_.ranks));
  stop_done_.resize(options_.faults.size());
  bytes_sent_.resize(static_cast<size_t>(options_.ranks));
  for (int i = 0; i < options_.ranks; ++i) {
    const auto node = static_cast<NodeId>(100 + i);
    const int32_t pid = pid_of(i);
    ranks_.push_back({.node = node,
                      .shift_ns = options_.clock_offsets_ns[static_cast<size_t>(i)],
                      .free_ns = origin_ns_ + between_ms(0, 2),
                      .main = ThreadStates(node, pid, pid, "nccl-train"),
                      .progress = ThreadStates(node, pid, pid + 5, "NCCL Progress 0")});
  }
  now_ns_ = origin_ns_;
  describe();
  for (int number = 0; number < options_.steps && !hung_; ++number) {
    step(number);
  }
  finish();
}

bool SyntheticJob::recorded(int rank) const {
  return std::find(options_.unrecorded.begin(), options_.unrecorded.end(), rank) == options_.unrecorded.end();
}

int64_t SyntheticJob::between_ms(double low, double high) {
  return milliseconds(std::uniform_real_distribution<>(low, high)(random_));
}

bool SyntheticJob::active(const Fault& fault, int64_t time_ns) const {
  return time_ns >= origin_ns_ + seconds(fault.from_s) && time_ns < origin_ns_ + seconds(fault.to_s);
}

void SyntheticJob::describe() {
  for (int i = 0; i < options_.ranks; ++i) {
    if (!recorded(i)) {
      continue;
    }
    const Rank& rank = ranks_[static_cast<size_t>(i)];
    Node node{.node_id = rank.node, .name = node_of_rank(i), .hostname = "host"};
    node.boot_id = options_.separate_boots ? node.name : "boot";
    // Same host: the error of UTC is visible as a different offset. Different hosts: it is hidden.
    node.clock_offset_ns = origin_ns_ - 1000 * kNsPerSecond + (options_.separate_boots ? 7 * i : rank.shift_ns);
    source_.accept(node);
    Process process{.node_id = rank.node, .pid = pid_of(i), .exe = "/opt/job/nccl-train"};
    process.rank = i;
    process.rank_source = RankSource::kEnvironment;
    process.world_size = options_.ranks;
    process.job_id = "job";
    source_.accept(process);
    Communicator communicator{.node_id = rank.node, .pid = pid_of(i), .comm_ptr = 0xc000};
    if (options_.known_communicator) {
      communicator.comm_id_hash = kRingHash;
      communicator.rank = i;
      communicator.nranks = options_.ranks;
      communicator.rank_source = RankSource::kInit;
    }
    source_.accept(communicator);
    const auto end = [&](int owner, int peer, bool dials, const char* thread, uint64_t cookie, uint16_t port) {
      Connection row{.node_id = rank.node, .cookie = cookie, .pid = pid_of(owner), .family = 2};
      const uint16_t client = static_cast<uint16_t>(port + 10'000 + (dials ? owner : peer));
      row.source = {"10.77.0." + std::to_string(owner + 1), dials ? client : port};
      row.destination = {"10.77.0." + std::to_string(peer + 1), dials ? port : client};
      row.opened_ns = origin_ns_ + rank.shift_ns - kNsPerSecond;
      row.rank = owner;
      row.thread_name = thread;
      source_.accept(row);
    };
    const int previous = (i + options_.ranks - 1) % options_.ranks;
    end(i, next(i), true, "NCCL Progress 0", 1, 50'000);
    end(i, previous, false, "NCCL Progress 0", 2, 50'000);
    if (i != 0) {
      end(i, 0, true, "nccl-train", 3, 29'500);  // the store: no collective traffic
    }
  }
}

void SyntheticJob::state_change(int link, int64_t time_ns, int state) {
  TcpEvent event{.event_id = static_cast<EventId>(++events_), .node_id = ranks_[static_cast<size_t>(link)].node};
  event.timestamp_ns = time_ns;
  event.event = TcpEventKind::kCongestionState;
  event.pid = pid_of(link);
  event.rank = link;
  event.cookie = 1;
  event.state = state;
  tcp_events_.push_back(event);
}

void SyntheticJob::retransmit(int link, int64_t time_ns) {
  state_change(link, time_ns, 0);
  tcp_events_.back().event = TcpEventKind::kRetransmit;
  tcp_events_.back().len = 1448;
}

/// A step's losses on one link: mostly fast recoveries, sometimes a lost tail that only the timer retransmits.
void SyntheticJob::lose_packets(int link, int64_t& time_ns) {
  if (chance(0.45)) {
    time_ns += 200 * kNsPerMs + between_ms(0, 4);
    state_change(link, time_ns, 4);
    retransmit(link, time_ns + 1000);
    if (chance(0.05)) {  // the retransmission is lost as well: the timer doubles
      time_ns += 400 * kNsPerMs;
      retransmit(link, time_ns);
    }
    time_ns += between_ms(0.3, 1);
    state_change(link, time_ns, 0);
    return;
  }
  state_change(link, time_ns, 1);
  time_ns += between_ms(0.1, 0.5);
  state_change(link, time_ns, 3);
  for (int i = 0; i < 3; ++i) {
    retransmit(link, time_ns + i * 1000);
  }
  time_ns += between_ms(1, 9);
  state_change(link, time_ns, 0);
}

/// Reordering: needless retransmissions on any link, without cost.
void SyntheticJob::needless_retransmits(int64_t from_ns, int64_t to_ns) {
  for (int link = 0; link < options_.ranks; ++link) {
    if (!chance(0.04)) {
      continue;
    }
    const int64_t time_ns = from_ns + (to_ns - from_ns) / 3;
    state_change(link, time_ns, 3);
    retransmit(link, time_ns);
    state_change(link, time_ns + between_ms(0.2, 2), 0);
  }
}

void SyntheticJob::compute(Rank& rank, int index, int number) {
  int64_t time_ns = rank.free_ns;
  const auto run = [&](int64_t length_ns) {
    rank.main.add(WaitKind::kOnCpu, time_ns, time_ns + length_ns);
    time_ns += length_ns;
  };
  run(between_ms(1.5, 3.5));
  if (options_.noise && chance(0.03)) {  // another rank of the job has the core
    const int64_t wait_ns = between_ms(5, 25);
    rank.main.add(WaitKind::kRunnable, time_ns, time_ns + wait_ns, pid_of(next(index)), "nccl-train");
    time_ns += wait_ns;
  }
  if (options_.noise && number < 2) {
    run(between_ms(20, 90));
  }
  for (size_t f = 0; f < options_.faults.size(); ++f) {
    const Fault& fault = options_.faults[f];
    if (fault.rank != index || !active(fault, time_ns)) {
      continue;
    }
    if (fault.kind == FaultKind::kLateRank) {
      run(milliseconds(fault.late_ms) + between_ms(-3, 3));
    } else if (fault.kind == FaultKind::kCpuContention) {
      for (int slice = 0; slice < 6; ++slice) {
        const int64_t wait_ns = between_ms(2.5, 4);
        rank.main.add(WaitKind::kRunnable, time_ns, time_ns + wait_ns, 900, fault.competitor);
        time_ns += wait_ns;
        run(between_ms(0.3, 0.8));
      }
    }
  }
  rank.arrival_ns = time_ns;
}

/// All ranks are inside: the ring moves until the slowest part is done. Returns the completion of the last rank.
int64_t SyntheticJob::transfer(int number, int64_t start_ns) {
  int64_t time_ns = start_ns + between_ms(6, 12) + (options_.noise && number < 2 ? between_ms(50, 150) : 0);
  for (Rank& rank : ranks_) {
    rank.progress.add(WaitKind::kOnCpu, start_ns, start_ns + between_ms(2, 4));
  }
  if (options_.noise && chance(0.05)) {
    Rank& rank = ranks_[random_() % ranks_.size()];
    const int64_t wait_ns = between_ms(5, 30);
    rank.progress.add(WaitKind::kRunnable, time_ns, time_ns + wait_ns, 4000, "nccl-train");
    time_ns += wait_ns;
  }
  if (options_.noise) {
    needless_retransmits(start_ns, time_ns);
  }
  for (size_t f = 0; f < options_.faults.size(); ++f) {
    const Fault& fault = options_.faults[f];
    Rank& rank = ranks_[static_cast<size_t>(fault.rank)];
    if (!active(fault, time_ns)) {
      continue;
    }
    if (fault.kind == FaultKind::kPacketLoss && chance(fault.loss_per_step)) {
      lose_packets(fault.rank, time_ns);
    } else if (fault.kind == FaultKind::kCpuContention) {
      for (int slice = 0; slice < 8; ++slice) {
        const int64_t wait_ns = between_ms(2.5, 4);
        rank.progress.add(WaitKind::kRunnable, time_ns, time_ns + wait_ns, 900, fault.competitor);
        time_ns += wait_ns + between_ms(0.1, 0.3);
      }
    } else if (fault.kind == FaultKind::kProcessStopped && !stop_done_[f]) {
      stop_done_[f] = true;
      if (fault.stop_ms <= 0) {
        rank.main.add_open(WaitKind::kStopped, time_ns);
        rank.progress.add_open(WaitKind::kStopped, time_ns);
        hung_ = true;
        return time_ns;
      }
      const int64_t stop_ns = milliseconds(fault.stop_ms);
      rank.main.add(WaitKind::kStopped, time_ns, time_ns + stop_ns);
      rank.progress.add(WaitKind::kStopped, time_ns, time_ns + stop_ns);
      time_ns += stop_ns;
    }
  }
  return time_ns;
}

void SyntheticJob::step(int number) {
  int64_t all_in_ns = 0;
  for (int i = 0; i < options_.ranks; ++i) {
    Rank& rank = ranks_[static_cast<size_t>(i)];
    compute(rank, i, number);
    all_in_ns = std::max(all_in_ns, rank.arrival_ns);
  }
  const int64_t done_ns = transfer(number, all_in_ns);
  for (int i = 0; i < options_.ranks; ++i) {
    Rank& rank = ranks_[static_cast<size_t>(i)];
    rank.end_ns = done_ns + between_ms(0, 0.4);
    rank.main.add(WaitKind::kBlocked, rank.arrival_ns, rank.end_ns);
    for (int bucket = 0; bucket < options_.buckets; ++bucket) {
      Collective call{.event_id = make_event_id(rank.node, ++events_), .node_id = rank.node};
      call.timestamp_ns = rank.arrival_ns + bucket * 20 * kNsPerUs;
      call.launch_ns = 8 * kNsPerUs;
      if (!hung_) {
        call.duration_ns = rank.end_ns - call.timestamp_ns;
        call.completion = Completion::kSync;
      }
      const bool late_tracer = !options_.known_communicator;
      const int64_t missed = late_tracer ? i : 0;  // each node's tracer starts a little later than the first
      call.seq = static_cast<int64_t>(number) * options_.buckets + bucket - missed;
      if (*call.seq < 0) {
        continue;
      }
      call.rank = i;
      call.rank_source = options_.known_communicator ? RankSource::kInit : RankSource::kEnvironment;
      call.nranks = options_.ranks;
      call.comm_id_hash = options_.known_communicator ? kRingHash : 0;
      call.comm_ptr = 0xc000;
      call.pid = pid_of(i);
      call.tid = pid_of(i);
      call.bytes = kBucketBytes * (1 + bucket % 2);
      collectives_.push_back(call);
    }
    const int64_t next_ns = std::max(rank.end_ns + between_ms(0.1, 0.3), rank.free_ns + milliseconds(options_.step_ms));
    rank.main.add(WaitKind::kBlocked, rank.end_ns, next_ns);
    rank.free_ns = next_ns;
  }
  for (; now_ns_ < done_ns; now_ns_ += kSampleEveryNs) {
    for (int link = 0; link < options_.ranks; ++link) {
      TcpSample sample{.node_id = ranks_[static_cast<size_t>(link)].node, .timestamp_ns = now_ns_, .cookie = 1};
      sample.pid = pid_of(link);
      sample.bytes_acked = static_cast<uint64_t>(number + 1) * kBucketBytes;
      tcp_samples_.push_back(sample);
    }
  }
  now_ns_ = std::max(now_ns_, done_ns);
}

void SyntheticJob::finish() {
  const auto rank_of = [](NodeId node) { return static_cast<int>(node) - 100; };
  const auto deliver = [&](auto& rows) {
    for (auto& row : rows) {
      row.timestamp_ns += ranks_[static_cast<size_t>(rank_of(row.node_id))].shift_ns;
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.timestamp_ns < b.timestamp_ns; });
    for (auto& row : rows) {
      if (recorded(rank_of(row.node_id))) {
        source_.accept(row);
      }
    }
  };
  if (hung_) {
    for (int64_t extra = 0; extra < 20; ++extra, now_ns_ += 250 * kNsPerMs) {
      TcpSample sample{.node_id = ranks_[0].node, .timestamp_ns = now_ns_, .cookie = 1};
      sample.pid = pid_of(0);
      sample.bytes_acked = 1;
      tcp_samples_.push_back(sample);
    }
  }
  deliver(collectives_);
  if (options_.tcp) {
    deliver(tcp_events_);
    deliver(tcp_samples_);
  }
  if (options_.waits) {
    std::vector<WaitSpan> spans;
    for (const Rank& rank : ranks_) {
      rank.main.write(spans, 0, 0, kForever);
      rank.progress.write(spans, 0, 0, kForever);
    }
    deliver(spans);
  }
}

}  // namespace stalltrace::analysis
