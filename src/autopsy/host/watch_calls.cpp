// SPDX-License-Identifier: Apache-2.0
#include "autopsy/host/watch_calls.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <variant>

#include "base/clock.h"
#include "capture/tracer.h"

namespace stalltrace::autopsy {
namespace {

class CallCounter final : public EventSink {
 public:
  explicit CallCounter(Traced& traced) : traced_(traced) {}

  void accept(Event event) override {
    const auto* call = std::get_if<Collective>(&event);
    if (call == nullptr || !moves_data(call->op)) {
      return;
    }
    auto of_process = std::ranges::find(traced_.calls, call->pid, &std::pair<pid_t, Traced::Calls>::first);
    if (of_process == traced_.calls.end()) {
      of_process = traced_.calls.insert(of_process, {call->pid, {}});
    }
    if (call->completion == Completion::kUnobserved || call->completion == Completion::kCaptured) {
      ++of_process->second.launched;
    } else if (call->completion != Completion::kOpen) {
      ++of_process->second.ended;
    }
  }

 private:
  Traced& traced_;
};

}  // namespace

Traced watch_nothing(int64_t duration_ns) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns));
  return {.done = false, .problem = {}, .lasted_ns = duration_ns, .calls = {}};
}

Traced watch_calls(std::span<const RankToRead> ranks, int64_t duration_ns) {
  const int64_t begun_ns = monotonic_now_ns();
  Traced traced;
  capture::TracerOptions options{.duration_ns = duration_ns};
  for (const RankToRead& rank : ranks) {
    options.pids.push_back(rank.pid);
  }
  CallCounter counter(traced);
  const auto tracer = capture::Tracer::create(options, counter, [](const std::string&) {});
  const Status run = tracer ? (*tracer)->run(
                                  {}, [] { return Status(); }, [](const capture::TracerStats&) {})
                            : Status(std::unexpected(tracer.error()));
  if (!run) {
    traced.problem = run.error().what;
    std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns - (monotonic_now_ns() - begun_ns)));
  }
  traced.done = run.has_value();
  traced.lasted_ns = duration_ns;
  return traced;
}

}  // namespace stalltrace::autopsy
