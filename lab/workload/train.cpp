// SPDX-License-Identifier: Apache-2.0
// One step, as PyTorch's DistributedDataParallel does it: forward; backward, bucket by bucket, each bucket's AllReduce
// queued on the communication stream behind an event of the compute stream; wait; optimizer.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "bugs.h"
#include "mix.h"
#include "modes.h"
#include "pattern.h"
#include "phases.h"
#include "script.h"
#include "stages.h"

namespace lab::workload {
namespace {

constexpr double kForwardShare = 0.3;
constexpr double kBackwardShare = 0.6;  // the rest is the optimizer's

struct Bucket {
  Buffer gradients;
  cudaEvent_t ready = nullptr;
};

class Trainer {
 public:
  explicit Trainer(Job& job);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  void run();

 private:
  void step(long number);
  void backward(long number);
  void synchronize();
  void optimize();
  void write_gradients(long number, int bucket);
  void verify(long number);
  void log_step(long number, long long start_ns, double wait_seconds);

  [[nodiscard]] size_t bucket_bytes() const { return job_.options().elements * type_bytes(job_.options().dtype); }
  [[nodiscard]] long salt(long number, int bucket) const { return number * job_.options().buckets + bucket; }

  Job& job_;
  cudaStream_t compute_stream_ = nullptr;
  cudaStream_t comm_stream_ = nullptr;
  cudaEvent_t reduced_ = nullptr;
  std::vector<Bucket> buckets_;
  std::optional<Mix> mix_;
  std::optional<Stages> stages_;
  LogFile log_;
};

Trainer::Trainer(Job& job) : job_(job), log_(open_log(job.options().log)) {
  CHECK_CALL(cudaStreamCreateWithFlags(&compute_stream_, cudaStreamNonBlocking));
  CHECK_CALL(cudaStreamCreateWithFlags(&comm_stream_, cudaStreamNonBlocking));
  CHECK_CALL(cudaEventCreateWithFlags(&reduced_, cudaEventDisableTiming));
  for (int i = 0; i < job.options().buckets; ++i) {
    Bucket& bucket = buckets_.emplace_back(Bucket{.gradients = Buffer(bucket_bytes())});
    CHECK_CALL(cudaEventCreateWithFlags(&bucket.ready, cudaEventDisableTiming));
    CHECK_CALL(cudaMemset(bucket.gradients.get(), 0, bucket_bytes()));
  }
  if (job.options().mix > 0) {
    mix_.emplace(job);
  }
  if (job.options().stages > 0 || job.options().exchange > 0) {
    stages_.emplace(job);
  }
}

Trainer::~Trainer() {
  cudaStreamSynchronize(compute_stream_);  // it may still use the buffers
  for (const Bucket& bucket : buckets_) {
    cudaEventDestroy(bucket.ready);
  }
  cudaEventDestroy(reduced_);
  cudaStreamDestroy(comm_stream_);
  cudaStreamDestroy(compute_stream_);
}

void Trainer::run() {
  const double start = seconds_now();
  double next = start;
  long number = 0;
  for (; number < job_.options().steps && !stop_requested(); ++number) {
    step(number);
    next += job_.options().step_ms * 1e-3;
    if (const double rest = next - seconds_now(); rest > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(rest));
    } else {
      next = seconds_now();  // a late step delays those after it, it is not caught up
    }
  }
  const double seconds = seconds_now() - start;
  end_job(job_);
  const double megabytes = static_cast<double>(number) * static_cast<double>(bucket_bytes()) *
                           static_cast<double>(job_.options().buckets) * 1e-6;
  std::printf("rank %d: %ld steps in %.3f s, %.2f steps/s, %.1f MB/s of gradients reduced\n", job_.rank(), number,
              seconds, static_cast<double>(number) / seconds, megabytes / seconds);
}

void Trainer::step(long number) {
  const long long start_ns = utc_now_ns();
  compute(job_.options().compute_ms * kForwardShare + slow_ms());
  begin_step(job_, number);
  wait_for_slow_input();
  wait_for_disk();
  leak_memory();
  stay_away(job_, comm_stream_);
  compute_on_device(compute_stream_);
  backward(number);
  const double wait_start = seconds_now();
  synchronize();
  const double wait_seconds = seconds_now() - wait_start;
  if (job_.options().verify) {
    verify(number);
  }
  if (mix_ && (number + 1) % job_.options().mix == 0) {
    mix_->run(number, comm_stream_);
  }
  if (job_.options().stages > 0 && (number + 1) % job_.options().stages == 0) {
    stages_->pipeline(comm_stream_);
  }
  if (job_.options().exchange > 0 && (number + 1) % job_.options().exchange == 0) {
    stages_->exchange(comm_stream_);
  }
  optimize();
  end_step(job_, number);
  log_step(number, start_ns, wait_seconds);
}

void Trainer::backward(long number) {
  const Options& options = job_.options();
  for (int i = 0; i < options.buckets; ++i) {
    Bucket& bucket = buckets_[static_cast<size_t>(i)];
    compute(options.compute_ms * kBackwardShare / options.buckets);
    if (options.verify) {
      write_gradients(number, i);
    }
    CHECK_CALL(cudaEventRecord(bucket.ready, compute_stream_));
    CHECK_CALL(cudaStreamWaitEvent(comm_stream_, bucket.ready, 0));
    if (i == 0 && mismatched_all_reduce(job_, bucket.gradients.get(), comm_stream_)) {
      continue;
    }
    CHECK_CALL(ncclAllReduce(bucket.gradients.get(), bucket.gradients.get(), bucket_elements(options, number, i),
                             options.dtype, ncclSum, job_.comm(), comm_stream_));
  }
}

void Trainer::synchronize() {
  CHECK_CALL(cudaEventRecord(reduced_, comm_stream_));
  CHECK_CALL(cudaStreamWaitEvent(compute_stream_, reduced_, 0));
  CHECK_CALL(cudaStreamSynchronize(comm_stream_));
  job_.check_alive();
}

/// Uses the gradients and sets them to zero for the next step.
void Trainer::optimize() {
  compute(job_.options().compute_ms * (1 - kForwardShare - kBackwardShare));
  for (const Bucket& bucket : buckets_) {
    CHECK_CALL(cudaMemsetAsync(bucket.gradients.get(), 0, bucket_bytes(), compute_stream_));
  }
}

void Trainer::write_gradients(long number, int bucket) {
  const auto data = encode(job_.options().dtype, bucket_elements(job_.options(), number, bucket),
                           [&](size_t i) { return pattern(job_.rank(), i, salt(number, bucket)); });
  CHECK_CALL(cudaMemcpyAsync(buckets_[static_cast<size_t>(bucket)].gradients.get(), data.data(), data.size(),
                             cudaMemcpyHostToDevice, compute_stream_));
  CHECK_CALL(cudaStreamSynchronize(compute_stream_));
}

void Trainer::verify(long number) {
  for (int bucket = 0; bucket < job_.options().buckets; ++bucket) {
    const size_t count = bucket_elements(job_.options(), number, bucket);
    const auto expected = encode(job_.options().dtype, count, [&](size_t i) {
      unsigned sum = 0;
      for (int rank = 0; rank < job_.nranks(); ++rank) {
        sum += pattern(rank, i, salt(number, bucket));
      }
      return sum;
    });
    std::vector<std::byte> got(expected.size());
    CHECK_CALL(cudaMemcpy(got.data(), buckets_[static_cast<size_t>(bucket)].gradients.get(), got.size(),
                          cudaMemcpyDeviceToHost));
    if (got != expected) {
      throw Failure("wrong gradients in step " + std::to_string(number) + ", bucket " + std::to_string(bucket));
    }
  }
}

void Trainer::log_step(long number, long long start_ns, double wait_seconds) {
  if (log_ != nullptr) {
    std::fprintf(log_.get(), "{\"step\":%ld,\"start_ns\":%lld,\"end_ns\":%lld,\"wait_ms\":%.3f}\n", number, start_ns,
                 utc_now_ns(), wait_seconds * 1e3);
    std::fflush(log_.get());
  }
}

}  // namespace

void train(Job& job) { Trainer(job).run(); }

}  // namespace lab::workload
