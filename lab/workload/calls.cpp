// SPDX-License-Identifier: Apache-2.0
// Call mode for benchmarks: the cost of one small AllReduce, with its start and end by the workload's own clock.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "modes.h"
#include "pattern.h"
#include "script.h"

namespace lab::workload {
namespace {

constexpr int kWarmupCalls = 20;

struct Statistics {
  double mean = 0;
  double median = 0;
};

Statistics summarize(std::vector<double> values) {
  if (values.empty()) {
    return {};
  }
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return {.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          .median = *middle};
}

/// The device's time between two points of a stream, as CUDA events report it.
class DeviceClock {
 public:
  explicit DeviceClock(cudaStream_t stream) : stream_(stream) {
    CHECK_CALL(cudaEventCreate(&begin_));
    CHECK_CALL(cudaEventCreate(&end_));
  }
  ~DeviceClock() {
    cudaEventDestroy(end_);
    cudaEventDestroy(begin_);
  }
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  void begin() { CHECK_CALL(cudaEventRecord(begin_, stream_)); }
  void end() { CHECK_CALL(cudaEventRecord(end_, stream_)); }
  /// Valid once the stream has passed both points.
  [[nodiscard]] double microseconds() const {
    float ms = 0;
    CHECK_CALL(cudaEventElapsedTime(&ms, begin_, end_));
    return static_cast<double>(ms) * 1e3;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace

void run_calls(Job& job) {
  const Options& options = job.options();
  const Buffer send(options.elements * type_bytes(options.dtype));
  const Buffer recv(options.elements * type_bytes(options.dtype));
  cudaStream_t stream = nullptr;
  CHECK_CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CALL(cudaMemsetAsync(send.get(), 0, options.elements * type_bytes(options.dtype), stream));
  const auto launch = [&] {
    CHECK_CALL(ncclAllReduce(send.get(), recv.get(), options.elements, options.dtype, ncclSum, job.comm(), stream));
  };
  for (int i = 0; i < kWarmupCalls; ++i) {
    launch();
  }
  CHECK_CALL(cudaStreamSynchronize(stream));

  const LogFile log = open_log(options.log);
  std::optional<DeviceClock> device_clock;
  if (options.device_clock) {
    device_clock.emplace(stream);
  }
  std::vector<double> launch_us;
  std::vector<double> call_us;
  const double start = seconds_now();
  long number = 0;
  while (number < options.calls && !stop_requested()) {
    const long long start_ns = utc_now_ns();
    if (device_clock) {
      device_clock->begin();
    }
    const double before = seconds_now();
    launch();
    const double launched = seconds_now();
    if (device_clock) {
      device_clock->end();
    }
    number++;
    if (number % options.sync_every == 0 || number == options.calls) {
      CHECK_CALL(cudaStreamSynchronize(stream));
      job.check_alive();
    }
    if (log != nullptr) {
      const long long end_ns = utc_now_ns();
      std::fprintf(log.get(), "{\"call\":%ld,\"start_ns\":%lld,\"launch_us\":%.3f,\"end_ns\":%lld", number - 1,
                   start_ns, (launched - before) * 1e6, end_ns);
      if (device_clock) {
        std::fprintf(log.get(), ",\"device_us\":%.3f", device_clock->microseconds());
      }
      std::fprintf(log.get(), "}\n");
    }
    launch_us.push_back((launched - before) * 1e6);
    call_us.push_back((seconds_now() - before) * 1e6);
    if (options.calls_per_second > 0) {
      const double rest = start + static_cast<double>(number) / options.calls_per_second - seconds_now();
      std::this_thread::sleep_for(std::chrono::duration<double>(std::max(rest, 0.0)));
    }
  }
  CHECK_CALL(cudaStreamSynchronize(stream));
  const double wall = seconds_now() - start;
  device_clock.reset();
  CHECK_CALL(cudaStreamDestroy(stream));
  const Statistics launches = summarize(std::move(launch_us));
  const Statistics calls = summarize(std::move(call_us));
  std::printf(
      "{\"rank\":%d,\"calls\":%ld,\"wall_s\":%.6f,\"calls_per_second\":%.1f,\"call_us\":{\"mean\":%.2f,"
      "\"median\":%.2f},\"launch_us\":{\"mean\":%.2f,\"median\":%.2f}}\n",
      job.rank(), number, wall, static_cast<double>(number) / wall, calls.mean, calls.median, launches.mean,
      launches.median);
}

}  // namespace lab::workload
