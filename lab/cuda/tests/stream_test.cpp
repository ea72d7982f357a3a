// SPDX-License-Identifier: Apache-2.0
// Streams, events and kernels of the CUDA stand-in, through its functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda_runtime.h"
#include "lab_kernel.h"

namespace {

using std::chrono::milliseconds;

/// Records events in order.
class Diary {
 public:
  void note(const std::string& entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
  }
  std::vector<std::string> entries() {
    const std::lock_guard lock(mutex_);
    return entries_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> entries_;
};

class OwnStream {
 public:
  OwnStream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~OwnStream() { cudaStreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)
  void synchronize() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

class OwnEvent {
 public:
  OwnEvent() { EXPECT_EQ(cudaEventCreate(&event_), cudaSuccess); }
  ~OwnEvent() { cudaEventDestroy(event_); }
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;

  operator cudaEvent_t() const { return event_; }  // NOLINT(google-explicit-constructor)
  void record(cudaStream_t stream) const { EXPECT_EQ(cudaEventRecord(event_, stream), cudaSuccess); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A kernel that runs until the test ends it.
class Kernel {
 public:
  void launch(cudaStream_t stream) {
    ASSERT_EQ(labLaunchKernel(
                  stream, [](void* self, labKernel_t kernel) { static_cast<Kernel*>(self)->handle_ = kernel; }, this),
              cudaSuccess);
  }
  [[nodiscard]] bool started() const { return handle_ != nullptr; }
  void end() { labKernelEnd(handle_); }

 private:
  std::atomic<labKernel_t> handle_ = nullptr;
};

struct Note {
  Diary& diary;
  std::string text;
};

void note_on(cudaStream_t stream, Note& note) {
  ASSERT_EQ(cudaLaunchHostFunc(
                stream,
                [](void* argument) {
                  const Note& made = *static_cast<Note*>(argument);
                  made.diary.note(made.text);
                },
                &note),
            cudaSuccess);
}

TEST(Stream, AKernelHoldsWhatComesAfterItAndNothingBefore) {
  Diary diary;
  Note before{.diary = diary, .text = "before"};
  Note after{.diary = diary, .text = "after"};
  const OwnStream stream;
  Kernel kernel;
  note_on(stream, before);
  kernel.launch(stream);
  note_on(stream, after);
  while (!kernel.started()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(diary.entries(), (std::vector<std::string>{"before"}));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  kernel.end();
  stream.synchronize();
  EXPECT_EQ(diary.entries(), (std::vector<std::string>{"before", "after"}));
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

TEST(Stream, AnIdleStreamIsAtAKernelAndPastAnEventAtOnce) {
  const OwnStream stream;
  const OwnEvent event;
  event.record(stream);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  Kernel kernel;
  kernel.launch(stream);
  EXPECT_TRUE(kernel.started());
  event.record(stream);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  kernel.end();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
}

TEST(Stream, EventsTimeAKernelFromItsStartToItsEnd) {
  const OwnStream stream;
  const OwnEvent begin;
  const OwnEvent end;
  Kernel kernel;
  const auto started = std::chrono::steady_clock::now();
  begin.record(stream);
  kernel.launch(stream);
  end.record(stream);
  std::this_thread::sleep_for(milliseconds(30));
  kernel.end();
  const std::chrono::duration<float, std::milli> ended = std::chrono::steady_clock::now() - started;
  std::this_thread::sleep_for(milliseconds(30));  // the host's own delay doesn't count
  float ms = 0;
  ASSERT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  EXPECT_GE(ms, 30);
  EXPECT_LE(ms, ended.count());
}

TEST(Stream, AStreamThatWaitsForAnotherIsCarriedOnByTheEndOfItsKernel) {
  const OwnStream first;
  const OwnStream second;
  const OwnEvent done;
  Kernel kernel;
  Kernel next;
  kernel.launch(first);
  done.record(first);
  ASSERT_EQ(cudaStreamWaitEvent(second, done, 0), cudaSuccess);
  next.launch(second);
  EXPECT_FALSE(next.started());
  kernel.end();
  EXPECT_TRUE(next.started());
  next.end();
  second.synchronize();
}

TEST(Stream, AKernelMayEndWhereItStarts) {
  const OwnStream stream;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(labLaunchKernel(
                  stream, [](void*, labKernel_t kernel) { labKernelEnd(kernel); }, nullptr),
              cudaSuccess);
  }
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

TEST(Stream, WorkOfADestroyedStreamIsStillDone) {
  Diary diary;
  Note late{.diary = diary, .text = "late"};
  Kernel kernel;
  const OwnEvent event;
  {
    const OwnStream stream;
    kernel.launch(stream);
    note_on(stream, late);
    event.record(stream);
  }
  kernel.end();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(diary.entries(), (std::vector<std::string>{"late"}));
}

TEST(Stream, ManyThreadsFeedOneStreamAndEachKeepsItsOrder) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  struct Step {
    std::vector<int>& done;
    int number;
  };
  std::vector<std::vector<int>> done(kThreads);
  std::vector<std::vector<Step>> steps(kThreads);
  const OwnStream stream;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      for (int i = 0; i < kEach; ++i) {
        steps[thread].push_back({.done = done[thread], .number = i});
      }
      threads.emplace_back([&, thread] {
        for (Step& step : steps[thread]) {
          const auto host = [](void* argument) {
            const Step& made = *static_cast<Step*>(argument);
            made.done.push_back(made.number);
          };
          const auto kernel = [](void* argument, labKernel_t handle) {
            const Step& made = *static_cast<Step*>(argument);
            made.done.push_back(made.number);
            labKernelEnd(handle);
          };
          if (step.number % 3 == 0) {
            EXPECT_EQ(cudaLaunchHostFunc(stream, host, &step), cudaSuccess);
          } else {
            EXPECT_EQ(labLaunchKernel(stream, kernel, &step), cudaSuccess);
          }
        }
      });
    }
  }
  stream.synchronize();
  for (const std::vector<int>& numbers : done) {
    ASSERT_EQ(numbers.size(), kEach);
    EXPECT_TRUE(std::ranges::is_sorted(numbers));
  }
}

}  // namespace
