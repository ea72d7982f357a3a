// SPDX-License-Identifier: Apache-2.0
// mpi-train: one rank of a training-like job. MPI errors end the whole job, which is MPI's default. Exit codes: 0 done,
// 1 failed, 2 wrong usage.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "../workload/script.h"
#include "options.h"
#include "poll.h"

namespace lab::mpi {
namespace {

constexpr double kForwardShare = 0.3;
constexpr double kBackwardShare = 0.6;  // the rest is the optimizer's
constexpr double kComputeTurnMs = 100;
constexpr int kMixElements = 4096;  // of one rank's part in the other collectives
constexpr int kExchangeTag = 7;
constexpr int kNeverSentTag = 8;

class Trainer {
 public:
  Trainer(const Options& options, LogFile log) : options_(options), log_(std::move(log)) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    buckets_.assign(static_cast<size_t>(options.buckets), std::vector<float>(options.elements, 1.0F));
    requests_.assign(buckets_.size(), MPI_REQUEST_NULL);
    mix_send_.assign(static_cast<size_t>(kMixElements * ranks_), 1.0F);
    mix_receive_ = mix_send_;
  }

  void run() {
    const double start = seconds_now();
    double next = start;
    for (long number = 0; number < options_.steps; ++number) {
      step(number);
      next += options_.step_ms * 1e-3;
      if (const double rest = next - seconds_now(); rest > 0) {
        std::this_thread::sleep_for(std::chrono::duration<double>(rest));
      } else {
        next = seconds_now();  // a late step delays those after it, it is not caught up
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = seconds_now() - start;
    std::printf("rank %d: %ld steps in %.3f s, %.2f steps/s\n", rank_, options_.steps, seconds,
                static_cast<double>(options_.steps) / seconds);
  }

 private:
  void step(long number) {
    const long long start_ns = utc_now_ns();
    compute(options_.compute_ms * kForwardShare + slow_ms());
    wait_for_slow_input();
    wait_for_disk();
    stay_away();
    backward();
    const double wait_start = seconds_now();
    long polls = 0;
    if (options_.poll.empty()) {
      MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    } else {
      polls = poll_until_done(options_.poll, requests_);
    }
    const double wait_ms = (seconds_now() - wait_start) * 1e3;
    if (options_.mix > 0 && (number + 1) % options_.mix == 0) {
      mix();
    }
    compute(options_.compute_ms * (1 - kForwardShare - kBackwardShare));
    if (log_ != nullptr) {
      std::fprintf(log_.get(), "{\"step\":%ld,\"start_ns\":%lld,\"end_ns\":%lld,\"wait_ms\":%.3f,\"polls\":%ld}\n",
                   number, start_ns, utc_now_ns(), wait_ms, polls);
      std::fflush(log_.get());
    }
  }

  void backward() {
    const std::string mismatch = bug("mismatch");
    for (size_t i = 0; i < buckets_.size(); ++i) {
      compute(options_.compute_ms * kBackwardShare / static_cast<double>(buckets_.size()));
      reduce(i, i == 0 ? mismatch : std::string());
    }
  }

  /// Reduces a bucket, or does what the bug "mismatch" selects: half the "count", another "datatype" or "op".
  void reduce(size_t bucket, const std::string& mismatch) {
    float* gradients = buckets_[bucket].data();
    const auto all = static_cast<int>(options_.elements);
    const int count = mismatch == "count" ? all / 2 : all;
    const MPI_Datatype type = mismatch == "datatype" ? MPI_SHORT : MPI_FLOAT;
    if (mismatch == "op") {
      MPI_Bcast(gradients, count, type, 0, MPI_COMM_WORLD);
    } else if (options_.blocking) {
      MPI_Allreduce(MPI_IN_PLACE, gradients, count, type, MPI_SUM, MPI_COMM_WORLD);
    } else {
      MPI_Iallreduce(MPI_IN_PLACE, gradients, count, type, MPI_SUM, MPI_COMM_WORLD, &requests_[bucket]);
    }
  }

  /// Skips this step's collectives while the bug "skip" is on: waits for "input", continues with "compute", or receives
  /// ("recv") a message that the rank before never sends.
  void stay_away() {
    for (std::string kind = bug("skip"); !kind.empty(); kind = bug("skip")) {
      if (kind == "recv") {
        float nothing = 0;
        MPI_Recv(&nothing, 1, MPI_FLOAT, (rank_ + ranks_ - 1) % ranks_, kNeverSentTag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
      } else if (kind == "compute") {
        compute(kComputeTurnMs);
      } else {
        wait_for_input();
      }
    }
  }

  void mix() {
    float* send = mix_send_.data();
    float* receive = mix_receive_.data();
    const int root = bug("mismatch") == "root" ? rank_ : 0;
    MPI_Bcast(send, kMixElements, MPI_FLOAT, root, MPI_COMM_WORLD);
    MPI_Reduce(send, receive, kMixElements, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Allgather(send, kMixElements, MPI_FLOAT, receive, kMixElements, MPI_FLOAT, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(send, receive, kMixElements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Alltoall(send, kMixElements, MPI_FLOAT, receive, kMixElements, MPI_FLOAT, MPI_COMM_WORLD);
    MPI_Sendrecv(send, kMixElements, MPI_FLOAT, (rank_ + 1) % ranks_, kExchangeTag, receive, kMixElements, MPI_FLOAT,
                 (rank_ + ranks_ - 1) % ranks_, kExchangeTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  const Options options_;
  const LogFile log_;
  int rank_ = 0;
  int ranks_ = 1;
  std::vector<std::vector<float>> buckets_;
  std::vector<MPI_Request> requests_;
  std::vector<float> mix_send_;
  std::vector<float> mix_receive_;
};

}  // namespace
}  // namespace lab::mpi

int main(int argc, char** argv) {
  using namespace lab::mpi;
  const auto options = parse_options(argc, argv);
  if (!options && options.error().empty()) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (!options) {
    std::fprintf(stderr, "mpi-train: %s\n", options.error().c_str());
    return 2;
  }
  lab::LogFile log;
  if (!options->log.empty()) {
    log.reset(std::fopen(options->log.c_str(), "we"));
    if (log == nullptr) {
      std::fprintf(stderr, "mpi-train: --log %s: it cannot be written\n", options->log.c_str());
      return 1;
    }
  }
  MPI_Init(&argc, &argv);
  Trainer(*options, std::move(log)).run();
  MPI_Finalize();
  return 0;
}
