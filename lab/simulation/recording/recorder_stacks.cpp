// SPDX-License-Identifier: Apache-2.0
// Where ranks were in their program: call sites of collectives, and samples of the ranks of a node while one of them is
// behind the others (capture/python/late_watch has the agent's rule; its early readings are not played). Part of
// Recorder. The lines are the same whatever keeps a rank, so that they show no more than that it computed, waited or
// was stopped.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "base/hash.h"
#include "lab/simulation/job.h"
#include "lab/simulation/recording/agent_numbers.h"
#include "lab/simulation/recording/recorder.h"

namespace stalltrace::simulation {
namespace {

constexpr int64_t kReadingNs = 10 * kNsPerMs;  // a process

constexpr const char* kSynchronise = "synchronize (/usr/lib/python3/dist-packages/torch/cuda/__init__.py:688)\n";
constexpr const char* kLoop = "train (/home/user/train.py:214)\n<module> (/home/user/train.py:260)";

/// One look at a thread.
struct Look {
  std::string frames;
  char state = 'R';
  const char* activity = "running";
};

/// A rank that waits stays at its line; one that computes goes on.
Look look_at(const RankHistory& rank, bool behind, int64_t time_ns) {
  const WaitKind kind = rank.main.at(time_ns).value_or(WaitKind::kOnCpu);
  const uint64_t chance = splitmix64_fold(static_cast<uint64_t>(time_ns), static_cast<uint64_t>(rank.pid));
  const uint64_t line = 131 + (kind == WaitKind::kOnCpu ? 1 + chance % 40 : 0);
  const std::string prepare = "prepare (/home/user/train.py:" + std::to_string(line) + ")\n";
  Look look{.frames = (behind ? prepare : kSynchronise) + kLoop};
  if (kind == WaitKind::kStopped) {
    look.state = 'T';
    look.activity = "stopped by a signal";
  } else if (kind == WaitKind::kBlocked) {
    look.state = 'S';
    look.activity = behind ? "waiting for another thread (futex)" : "in ioctl";
  }
  return look;
}

/// Calls of one rank on the communicator that has all ranks, in their order: when they were launched.
std::vector<int64_t> launches_of(const RankHistory& rank, int group) {
  std::vector<int64_t> times;
  for (const Call& call : rank.calls) {
    if (call.group == group && is_collective(call.op)) {
      times.push_back(call.arrival_ns);
    }
  }
  return times;
}

/// Whether a sample is due, within the agent's budget.
class SampleBudget {
 public:
  bool take(int64_t time_ns, bool lasting) {
    tokens_ns_ =
        std::min(tokens_ns_ + (filled_ns_ == 0 ? 0 : time_ns - filled_ns_), agent::kMostAtOnce * agent::kEveryNs);
    filled_ns_ = time_ns;
    if (tokens_ns_ < (lasting ? 1 : agent::kKept + 1) * agent::kEveryNs) {
      return false;
    }
    tokens_ns_ -= agent::kEveryNs;
    return true;
  }

 private:
  int64_t tokens_ns_ = agent::kMostAtOnce * agent::kEveryNs;
  int64_t filled_ns_ = 0;
};

}  // namespace

int64_t Recorder::stack_id_of(std::string_view frames) { return static_cast<int64_t>(splitmix64_text(frames) >> 1); }

std::string Recorder::call_site_of(Operation op) {
  return "nccl" + std::string(display_name(op)) +
         "+0x1c0 (libnccl.so.2)\nc10d::ProcessGroupNCCL::launch+0x2b0 (libtorch_cuda.so)";
}

/// When a rank is behind the others of its node, and for how long it has been: [from, to).
std::vector<Recorder::Behind> Recorder::ranks_behind(int attempt) const {
  const int first = node_ * options_.ranks_per_node;
  std::vector<std::vector<int64_t>> launches;
  for (int i = 0; i < options_.ranks_per_node; ++i) {
    launches.push_back(launches_of(of(attempt, first + i), layout_.world));
  }
  std::vector<Behind> found;
  for (int i = 0; i < options_.ranks_per_node; ++i) {
    const RankHistory& own = of(attempt, first + i);
    const int64_t end_ns = std::min(to_ns_, own.exit_ns.value_or(kNever));
    size_t done = 0;  // calls on the communicator of all ranks
    for (size_t call = 0; call < own.calls.size(); ++call) {
      const int64_t since_ns = own.calls[call].arrival_ns;
      done += own.calls[call].group == layout_.world && is_collective(own.calls[call].op) ? 1 : 0;
      const int64_t to_ns = call + 1 < own.calls.size() ? std::min(end_ns, own.calls[call + 1].arrival_ns) : end_ns;
      if (to_ns - since_ns < agent::kLateNs) {
        continue;
      }
      int64_t ahead_ns = kNever;  // another rank of the node launched the next call
      for (const std::vector<int64_t>& others : launches) {
        ahead_ns = done < others.size() ? std::min(ahead_ns, others[done]) : ahead_ns;
      }
      const int64_t from_ns = std::max(ahead_ns, since_ns) + agent::kLateNs;
      if (ahead_ns < kNever && from_ns < to_ns && from_ns >= from_ns_) {
        found.push_back({first + i, since_ns, from_ns, to_ns});
      }
    }
  }
  return found;
}

/// When the agent reads stacks, within its budget: as soon as a rank is behind, and again when it has been for longer.
std::vector<Recorder::Sample> Recorder::samples_of(const std::vector<Behind>& behind) {
  std::vector<Sample> samples;
  std::vector<int64_t> due_ns;
  for (const Behind& one : behind) {
    due_ns.push_back(one.from_ns);
  }
  SampleBudget budget;
  while (true) {
    size_t next = behind.size();
    for (size_t i = 0; i < behind.size(); ++i) {
      if (due_ns[i] < behind[i].to_ns && (next == behind.size() || due_ns[i] < due_ns[next])) {
        next = i;
      }
    }
    if (next == behind.size()) {
      return samples;
    }
    const int64_t now_ns = due_ns[next];
    if (!budget.take(now_ns, now_ns - behind[next].since_ns >= agent::kStillNs)) {
      due_ns[next] += agent::kLateNs;  // there may be room then
      continue;
    }
    Sample sample{.time_ns = now_ns};
    for (size_t i = 0; i < behind.size(); ++i) {
      if (behind[i].from_ns <= now_ns && now_ns < behind[i].to_ns) {
        due_ns[i] = behind[i].since_ns + agent::kAgain * (now_ns - behind[i].since_ns);
        if (sample.outside.size() < agent::kMostOutside) {
          sample.outside.push_back(behind[i].rank);
        }
      }
    }
    samples.push_back(std::move(sample));
  }
}

/// The sample at one moment: of the ranks that are behind, and of some that are not.
void Recorder::add_sample(int attempt, const Sample& sample, std::set<std::string>& frames,
                          std::vector<PythonStack>& rows) const {
  const int first = node_ * options_.ranks_per_node;
  size_t inside = 0;
  for (int rank = first; rank < first + options_.ranks_per_node; ++rank) {
    const bool is_outside = std::ranges::find(sample.outside, rank) != sample.outside.end();
    const RankHistory& own = of(attempt, rank);
    if (own.exit_ns.value_or(kNever) <= sample.time_ns || (!is_outside && inside >= agent::kMostInside)) {
      continue;
    }
    inside += is_outside ? 0 : 1;
    const Look look = look_at(own, is_outside, sample.time_ns);
    PythonStack row{.node_id = Job::node_id(node_), .timestamp_ns = to_clock(sample.time_ns)};
    row.duration_ns = kReadingNs;
    row.pid = row.rank_pid = row.tid = own.pid;
    row.state = look.state;
    row.activity = look.activity;
    row.stack_id = stack_id_of(look.frames);
    frames.insert(look.frames);
    rows.push_back(std::move(row));
  }
}

void Recorder::write_stacks(EventSink& sink) const {
  std::set<std::string> frames;
  std::vector<PythonStack> rows;
  const int first = node_ * options_.ranks_per_node;
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    for (int rank = first; rank < first + options_.ranks_per_node; ++rank) {
      std::set<Operation> ops;
      for (const Call& call : of(attempt, rank).calls) {
        if (ops.insert(call.op).second) {
          frames.insert(call_site_of(call.op));
        }
      }
    }
    for (const Sample& sample : samples_of(ranks_behind(attempt))) {
      add_sample(attempt, sample, frames, rows);
    }
  }
  for (const std::string& text : frames) {
    sink.accept(Stack{stack_id_of(text), text});
  }
  std::ranges::stable_sort(rows, {}, &PythonStack::timestamp_ns);
  for (PythonStack& row : rows) {
    sink.accept(std::move(row));
  }
}

}  // namespace stalltrace::simulation
