// SPDX-License-Identifier: Apache-2.0
// The cost of one call from NCCL into the profiler plugin, compared with a plugin that does nothing. Both are called
// alternately through the table of interface v6, as NCCL calls them. Goal: at most 100 ns per call.
//
//   bench_plugin [ROUNDS]      default: 15 rounds of about 100,000 calls per kind; medians
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "plugin/abi/profiler.h"
#include "plugin/wire/blackbox.h"

namespace {

using namespace stalltrace::nccl;
using v6::Descriptor;
using v6::Profiler;
using v6::StateArguments;

constexpr int kRepeats = 20'000;
constexpr double kGoal_ns = 100;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "bench_plugin: %s\n", what);
  std::exit(1);
}

/// One plugin with one communicator.
class Side {
 public:
  explicit Side(const char* library) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    table_ = handle != nullptr ? static_cast<const Profiler*>(dlsym(handle, "ncclProfiler_v6")) : nullptr;
    int mask = 0;
    if (table_ == nullptr || table_->init(&context_, 1, &mask, "bench", 2, 8, 3, nullptr) != 0 || mask == 0) {
      die(handle == nullptr ? dlerror() : "the plugin records nothing");
    }
  }
  void finish() { table_->finalize(context_); }

  void* start(Descriptor& descriptor) const {
    void* handle = nullptr;
    table_->start_event(context_, &handle, &descriptor);
    return handle;
  }
  void stop(void* handle) const { table_->stop_event(handle); }
  void state(void* handle, int state, uint64_t value) const {
    StateArguments arguments{};
    arguments.kernel_ch.gpu_timer_ns = value;
    table_->record_event_state(handle, state, &arguments);
  }

  [[nodiscard]] void* coll() const {
    Descriptor event{};
    event.type = kEventColl;
    event.rank = 3;
    event.coll = {1, "AllReduce", nullptr, nullptr, 1 << 20, 0, "ncclBfloat16", 8, 16, "RING", "SIMPLE", nullptr};
    return start(event);
  }
  [[nodiscard]] void* op(void* parent) const {
    Descriptor event{};
    event.type = kEventProxyOp;
    event.parent = parent;
    event.rank = 3;
    event.proxy_op = {getpid_, 2, 4, 8, 1 << 19, 1};
    return start(event);
  }
  [[nodiscard]] void* step(void* parent, int number) const {
    Descriptor event{};
    event.type = kEventProxyStep;
    event.parent = parent;
    event.rank = 3;
    event.proxy_step.step = number;
    return start(event);
  }
  [[nodiscard]] void* kernel(void* parent) const {
    Descriptor event{};
    event.type = kEventKernelCh;
    event.parent = parent;
    event.kernel_ch = {2, 1000};
    return start(event);
  }
  [[nodiscard]] void* api() const {
    Descriptor event{};
    event.type = kEventCollApi;
    event.coll_api = {"AllReduce", 1 << 20, "ncclBfloat16", 0, nullptr, false};
    return start(event);
  }

 private:
  const Profiler* table_ = nullptr;
  void* context_ = nullptr;
  pid_t getpid_ = getpid();
};

struct Kind {
  const char* name;
  int calls;  // calls in one round of `work`
  void (*work)(const Side&);
};

void collective(const Side& side) { side.stop(side.coll()); }

void api_call(const Side& side) { side.stop(side.api()); }

/// A collective of one channel, as one rank of a ring reports it: one operation each way with four steps, and a kernel
/// channel.
void whole_collective(const Side& side) {
  void* api = side.api();
  void* coll = side.coll();
  side.stop(coll);
  side.stop(api);
  void* ops[] = {side.op(coll), side.op(coll)};
  void* kernel = side.kernel(coll);
  for (int number = 0; number < 4; ++number) {
    void* send = side.step(ops[0], number);
    void* receive = side.step(ops[1], number);
    side.state(send, kStateSendGpuWait, 0);
    side.state(receive, kStateRecvWait, 0);
    side.state(send, kStateSendPeerWait, 0);
    side.state(send, kStateSendWait, 1 << 19);
    side.state(receive, kStateRecvFlushWait, 1 << 19);
    side.state(receive, kStateRecvGpuWait, 0);
    side.stop(send);
    side.stop(receive);
  }
  side.state(kernel, kStateKernelChStop, 2000);
  side.stop(kernel);
  side.stop(ops[0]);
  side.stop(ops[1]);
}

void operation(const Side& side) {
  void* coll = side.coll();
  for (int channel = 0; channel < 16; ++channel) {
    side.stop(side.op(coll));
  }
  side.stop(coll);
}

void steps(const Side& side) {
  void* coll = side.coll();
  void* op = side.op(coll);
  for (int number = 0; number < 16; ++number) {
    void* step = side.step(op, number);
    side.state(step, kStateSendGpuWait, 0);
    side.state(step, kStateSendPeerWait, 0);
    side.state(step, kStateSendWait, 1 << 19);
    side.stop(step);
  }
  side.stop(op);
  side.stop(coll);
}

/// Repeats a state, as NCCL's proxy thread does while a peer is not ready.
void repeated_state(const Side& side) {
  void* coll = side.coll();
  void* op = side.op(coll);
  void* step = side.step(op, 0);
  for (int poll = 0; poll < 95; ++poll) {
    side.state(step, kStateSendPeerWait, 0);
  }
  side.stop(step);
  side.stop(op);
  side.stop(coll);
}

void kernels(const Side& side) {
  void* coll = side.coll();
  for (int channel = 0; channel < 16; ++channel) {
    void* kernel = side.kernel(coll);
    side.state(kernel, kStateKernelChStop, 2000);
    side.stop(kernel);
  }
  side.stop(coll);
}

constexpr Kind kKinds[] = {
    {"collective: start, stop", 2, collective},
    {"API call: start, stop", 2, api_call},
    {"proxy operation: start, stop", 34, operation},
    {"proxy step: start, 3 states, stop", 84, steps},
    {"proxy step: the same state again", 101, repeated_state},
    {"kernel channel: start, state, stop", 50, kernels},
    {"a whole collective of one channel", 51, whole_collective},
};

double cost_ns(const Kind& kind, const Side& side) {
  const int repeats = kRepeats / kind.calls + 1;
  const auto begun = std::chrono::steady_clock::now();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    kind.work(side);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
  return took.count() / (static_cast<double>(repeats) * kind.calls);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

uint64_t size_of_files(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    bytes += entry.file_size();
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  char folder[] = "/dev/shm/stalltrace-bench-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    die("no folder in /dev/shm");
  }
  setenv("STALLTRACE_DIR", folder, 1);
  {
    Side ours(STALLTRACE_PLUGIN);
    Side nothing(NOTHING_PLUGIN);
    std::printf("ns a call, median of %d rounds        ours   nothing   difference   goal %.0f\n", rounds, kGoal_ns);
    for (const Kind& kind : kKinds) {
      std::vector<double> with;
      std::vector<double> without;
      for (int round = 0; round < rounds; ++round) {
        with.push_back(cost_ns(kind, ours));
        without.push_back(cost_ns(kind, nothing));
      }
      const double difference = median(with) - median(without);
      std::printf("%-34s %8.1f  %8.1f   %10.1f   %s\n", kind.name, median(with), median(without), difference,
                  difference <= kGoal_ns ? "met" : "missed");
    }
    std::printf("file: %.1f MiB (goal 64)\n", static_cast<double>(size_of_files(folder)) / (1 << 20));
    ours.finish();
    nothing.finish();
  }
  std::filesystem::remove_all(folder);
  return 0;
}
