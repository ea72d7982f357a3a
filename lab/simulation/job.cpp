// SPDX-License-Identifier: Apache-2.0
#include "lab/simulation/job.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lab/simulation/machine.h"
#include "lab/simulation/recording/recorder.h"

namespace stalltrace::simulation {
namespace {

constexpr int64_t kRestartNs = 12 * kNsPerSecond;

int64_t seconds(double value) { return static_cast<int64_t>(value * static_cast<double>(kNsPerSecond)); }

/// The newest time at which the job made progress.
int64_t progress_to_ns(const Attempt& attempt) {
  int64_t last_ns = 0;
  for (const RankHistory& rank : attempt.ranks) {
    last_ns = std::max(last_ns, rank.last_ns);
  }
  return last_ns;
}

/// All processes end at about `time_ns`.
void end_all(Attempt& attempt, int64_t time_ns, int signal, Random& random) {
  for (RankHistory& rank : attempt.ranks) {
    if (!rank.exit_ns) {
      rank.exit_ns = time_ns + random.below(80 * kNsPerMs);
      rank.exit_signal = signal;
    }
  }
}

}  // namespace

std::string Job::address_of(int node) {
  return "10.0." + std::to_string(node / 250) + "." + std::to_string(node % 250 + 1);
}

Job::Job(JobOptions options) : options_(std::move(options)), layout_(Layout::of(options_)) { play(); }

/// How the processes of the last attempt end: by themselves, or by the launcher after the death of one.
void Job::end_processes(Attempt& attempt) {
  Random random(options_.seed, 0xe0);
  const auto dead =
      std::ranges::find_if(attempt.ranks, [](const RankHistory& rank) { return rank.exit_ns.has_value(); });
  if (dead != attempt.ranks.end() && options_.launcher_s > 0) {
    end_all(attempt, *dead->exit_ns + seconds(options_.launcher_s), 15, random);
  }
  if (!history_.hung) {
    for (RankHistory& rank : attempt.ranks) {
      rank.exit_ns = rank.last_ns + 200 * kNsPerMs + random.below(300 * kNsPerMs);
    }
  }
  history_.ended_ns = progress_to_ns(attempt);
  int64_t exits_ns = 0;
  bool all_ended = true;
  for (const RankHistory& rank : attempt.ranks) {
    all_ended = all_ended && rank.exit_ns.has_value();
    exits_ns = std::max(exits_ns, rank.exit_ns.value_or(0));
  }
  recorded_to_ns_ = all_ended ? exits_ns + kNsPerSecond : history_.ended_ns + seconds(options_.hang_s);
}

void Job::play() {
  const int64_t first_ns = kOriginNs + 10 * kNsPerSecond;
  history_.first_step_ns = first_ns;
  int from_step = 0;
  int64_t begin_ns = first_ns;
  if (options_.restart_at > 0) {
    Machine before(options_, layout_, 0, begin_ns, 0, options_.restart_at + 1);
    before.run();
    Random random(options_.seed, 0xe1);
    int64_t end_ns = kNever;
    for (const RankHistory& rank : before.attempt().ranks) {
      end_ns = std::min(end_ns, rank.last_ns);
    }
    end_ns -= random.below(100 * kNsPerMs);
    end_all(before.attempt(), end_ns, 15, random);
    history_.attempts.push_back(std::move(before.attempt()));
    history_.effects = std::move(before.effects());
    from_step = options_.restart_at;
    begin_ns = end_ns + kRestartNs;
  }
  Machine machine(options_, layout_, static_cast<int>(history_.attempts.size()), begin_ns, from_step, options_.steps);
  machine.run();
  history_.hung = machine.hung();
  std::ranges::move(machine.effects(), std::back_inserter(history_.effects));
  history_.attempts.push_back(std::move(machine.attempt()));
  end_processes(history_.attempts.back());
  for (Attempt& attempt : history_.attempts) {
    attempt.sort_flows(options_.nodes, options_.ranks_per_node);
  }
  if (options_.cut_s > 0) {
    recorded_to_ns_ = std::min(recorded_to_ns_, first_ns + seconds(options_.cut_s));
  }
  const auto length_ns = static_cast<double>(history_.ended_ns - first_ns);
  if (options_.attach_share > 0) {
    options_.attach_s = options_.attach_share * length_ns / static_cast<double>(kNsPerSecond);
  }
  if (options_.cut_share > 0) {
    recorded_to_ns_ = std::min(recorded_to_ns_, first_ns + static_cast<int64_t>(options_.cut_share * length_ns));
  }
  for (Effect& effect : history_.effects) {
    effect.to_ns = std::min(effect.to_ns, std::max(history_.ended_ns, recorded_to_ns_));
  }
}

SimulatedClock Job::clock(int node) const {
  return Recorder(options_, layout_, history_, node, recorded_to_ns_).clock();
}

int64_t Job::monotonic_ns(int node, int64_t time_ns) const {
  const Recorder recorder(options_, layout_, history_, node, recorded_to_ns_);
  return recorder.clock().at(time_ns) - recorder.clock_offset_ns();
}

void Job::record(int node, EventSink& sink) const {
  Recorder(options_, layout_, history_, node, recorded_to_ns_).write(sink);
}

void Job::record_all(EventSink& sink) const {
  for (int node = 0; node < options_.nodes; ++node) {
    record(node, sink);
  }
}

}  // namespace stalltrace::simulation
