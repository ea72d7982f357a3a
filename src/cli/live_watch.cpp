// SPDX-License-Identifier: Apache-2.0
#include "cli/live_watch.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace stalltrace::cli {
namespace {

constexpr size_t kQueued = 100'000;  // events between two rounds
constexpr int64_t kRoundNs = kNsPerSecond;
constexpr int64_t kLongestPauseNs = 3 * kNsPerSecond;  // between rounds, so that a finding is still reported in time
constexpr int64_t kPausePerCost = 100;  // a pause lasts this many times the CPU time of the round: 1 % of a core
constexpr int kNice = 10;

/// Lowers the thread's priority below the job's and the tracer's.
void step_back() {
  const sched_param none{};
  (void)::sched_setscheduler(0, SCHED_BATCH, &none);
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

int64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

}  // namespace

struct LiveWatch::State {
  explicit State(EventSink& sink) : next(sink) {}

  void work(const std::stop_token& stop);
  /// False when the watch must end.
  bool wait(const std::stop_token& stop, int64_t pause_ns, std::vector<Event>& events, int64_t& now_ns);
  void deliver(Result<std::vector<analysis::LiveChange>> explained);

  EventSink& next;
  analysis::LiveAnalysis live;  // used by the thread, and by finish() after its end
  mutable std::mutex mutex;     // protects all members below
  std::condition_variable_any changed;
  std::vector<Event> queue;
  std::vector<analysis::LiveChange> changes;
  Status status;
  int64_t now_ns = 0;
  uint64_t skipped = 0;

  std::jthread thread;  // last member: it ends before the others are destroyed
};

bool LiveWatch::State::wait(const std::stop_token& stop, int64_t pause_ns, std::vector<Event>& events, int64_t& now) {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, std::chrono::nanoseconds(pause_ns), [] { return false; });  // all of it unless stopped
  changed.wait(lock, stop, [&] { return now_ns > now; });
  if (stop.stop_requested()) {
    return false;  // the queue is finish()'s
  }
  std::swap(events, queue);
  now = now_ns;
  return true;
}

void LiveWatch::State::deliver(Result<std::vector<analysis::LiveChange>> explained) {
  const std::lock_guard lock(mutex);
  if (!explained) {
    status = std::unexpected(std::move(explained.error()));
    return;
  }
  changes.insert(changes.end(), std::make_move_iterator(explained->begin()), std::make_move_iterator(explained->end()));
}

void LiveWatch::State::work(const std::stop_token& stop) {
  step_back();
  std::vector<Event> events;
  int64_t now = 0;
  int64_t pause_ns = kRoundNs;
  while (wait(stop, pause_ns, events, now)) {
    const int64_t begun_ns = thread_cpu_ns();
    for (Event& event : events) {
      live.accept(std::move(event));
    }
    events.clear();
    deliver(live.run_round(now));
    pause_ns = std::clamp(kPausePerCost * (thread_cpu_ns() - begun_ns), kRoundNs, kLongestPauseNs);
  }
}

LiveWatch::LiveWatch(EventSink& next) : state_(std::make_unique<State>(next)) {}

LiveWatch::~LiveWatch() = default;

void LiveWatch::start() {
  state_->thread = std::jthread([state = state_.get()](const std::stop_token& stop) { state->work(stop); });
}

void LiveWatch::accept(Event event) {
  if (!std::holds_alternative<NetSpan>(event)) {
    const std::lock_guard lock(state_->mutex);
    if (state_->queue.size() < kQueued) {
      state_->queue.push_back(event);
    } else {
      ++state_->skipped;
    }
  }
  state_->next.accept(std::move(event));
}

void LiveWatch::advance(int64_t now_ns) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->now_ns = now_ns;
  }
  state_->changed.notify_one();
}

void LiveWatch::finish(int64_t now_ns) {
  if (state_->thread.joinable()) {
    state_->thread.request_stop();
    state_->thread.join();
  }
  for (Event& event : state_->queue) {
    state_->live.accept(std::move(event));
  }
  state_->queue.clear();
  state_->deliver(state_->live.finish(now_ns));
}

std::vector<analysis::LiveChange> LiveWatch::take() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->changes, {});
}

Status LiveWatch::status() const {
  const std::lock_guard lock(state_->mutex);
  return state_->status;
}

uint64_t LiveWatch::skipped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->skipped;
}

}  // namespace stalltrace::cli
