// SPDX-License-Identifier: Apache-2.0
// The heartbeat of a living, a stopped and a forked process.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "plugin/testing/host.h"

namespace stalltrace::plugin::testing {
namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

uint64_t monotonic_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

class Heartbeat : public ::testing::Test {
 protected:
  /// An idle process with a communicator.
  template <typename Work>
  pid_t start(Work work) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      static const Library library;
      static Job<V5> job(library);
      work();
      (void)!write(ready[1], "x", 1);
      for (;;) {
        pause();
      }
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
  }
  static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }

  /// The first heartbeat after `before_ns`; 0 if there is none for ten seconds.
  [[nodiscard]] uint64_t beat_after(uint64_t before_ns) const {
    for (int look = 0; look < 200; ++look) {
      if (const uint64_t beat_ns = folder_.read().header.heartbeat_ns; beat_ns > before_ns) {
        return beat_ns;
      }
      sleep_ms(50);
    }
    return 0;
  }

  BoxFolder folder_;
};

TEST_F(Heartbeat, BeatsWhileCommunicatorsLiveWhateverNcclDoes) {
  {
    const Library library;
    const Job<V5> job(library);
    const uint64_t first_ns = beat_after(0);
    const uint64_t second_ns = beat_after(first_ns);
    EXPECT_GT(second_ns, first_ns);
    EXPECT_GT(beat_after(second_ns), second_ns);
    EXPECT_EQ(folder_.read().header.heartbeat_ended_ns, 0);
  }
  EXPECT_NE(folder_.read().header.heartbeat_ended_ns, 0);
}

TEST_F(Heartbeat, AStoppedProcessHasNoneAndReportsOfItWhenItGoesOn) {
  const pid_t child = start([] {});
  kill(child, SIGSTOP);
  const uint64_t stopped_ns = monotonic_ns();
  sleep_ms(1700);
  EXPECT_LT(folder_.read().header.heartbeat_ns, stopped_ns + 300'000'000);
  kill(child, SIGCONT);
  const uint64_t continued_ns = monotonic_ns();
  EXPECT_NE(beat_after(continued_ns), 0);
  const st_box_header header = folder_.read().header;
  end(child);
  ASSERT_GE(header.pauses_filled, 1);
  const st_box_pause& pause = header.pauses[header.pauses_filled - 1];
  EXPECT_GT(pause.from_ns, stopped_ns - 250'000'000);
  EXPECT_LT(pause.from_ns, stopped_ns + 300'000'000);
  EXPECT_GE(pause.to_ns, continued_ns - 50'000'000);
  EXPECT_LT(pause.runnable_ns, (pause.to_ns - pause.from_ns) / 2) << "nothing else had its CPU";
}

TEST_F(Heartbeat, AKilledProcesssLastBeatStays) {
  const pid_t child = start([] {});
  EXPECT_NE(beat_after(beat_after(0)), 0);
  end(child);
  const st_box_header header = folder_.read().header;
  EXPECT_LE(header.heartbeat_ns, monotonic_ns());
  EXPECT_EQ(header.heartbeat_ended_ns, 0);
  sleep_ms(400);
  EXPECT_EQ(folder_.read().header.heartbeat_ns, header.heartbeat_ns);
}

TEST_F(Heartbeat, AForksChildHasNoneOfItsParentsAndUnloadsWithoutIt) {
  const pid_t child = start([] {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      exit(0);  // destructors run, the library's too
    }
    int status = -1;
    waitpid(grandchild, &status, 0);
    if (status != 0) {
      _exit(1);
    }
  });
  EXPECT_NE(beat_after(monotonic_ns()), 0) << "the parent's goes on";
  EXPECT_EQ(folder_.boxes().size(), 1U);
  end(child);
}

TEST_F(Heartbeat, ItsThreadTakesNoSignal) {
  const Library library;
  const Job<V5> job(library);
  sleep_ms(100);
  int threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "status");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.starts_with("Name:\tstalltrace\n")) {
      ++threads;
      EXPECT_NE(text.find("SigBlk:\tfffffff"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(threads, 1);
}

}  // namespace
}  // namespace stalltrace::plugin::testing
