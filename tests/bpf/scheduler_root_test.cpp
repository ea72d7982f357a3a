// SPDX-License-Identifier: Apache-2.0
// A thread's waits, and the processes that ran instead.
#include <gmock/gmock.h>
#include <signal.h>

#include "base/process/procfs.h"
#include "support.h"

namespace stalltrace::capture {
namespace {

class SchedulerRoot : public testing::Test {
 protected:
  void SetUp() override { ST_NEED_ROOT(); }
};

int64_t waited(const std::vector<WaitSpan>& waits, WaitKind kind) {
  int64_t sum = 0;
  for (const WaitSpan& wait : waits) {
    sum += wait.kind == kind ? wait.waited_ns : 0;
  }
  return sum;
}

TEST_F(SchedulerRoot, AStoppedProcessWaitsStopped) {
  Trace trace;
  Job job;
  job.must("init 2 0");
  sleep_ms(100);
  job.signal(SIGSTOP);
  sleep_ms(300);
  job.signal(SIGCONT);
  sleep_ms(50);
  job.must("all_reduce 150");
  trace.stop();
  const int64_t stopped_ns = waited(trace.waits(job.pid()), WaitKind::kStopped);
  EXPECT_GT(stopped_ns, 250'000'000);
  EXPECT_LT(stopped_ns, 1'000'000'000);
}

TEST_F(SchedulerRoot, AProcessStillStoppedAtTheEndIsAnOpenWait) {
  Trace trace;
  Job job;
  job.must("init 2 0");
  sleep_ms(100);
  job.signal(SIGSTOP);
  sleep_ms(300);
  trace.stop();
  job.signal(SIGCONT);
  bool open = false;
  for (const WaitSpan& wait : trace.waits(job.pid())) {
    open |= wait.open && wait.kind == WaitKind::kStopped && wait.waited_ns > 200'000'000;
  }
  EXPECT_TRUE(open);
}

TEST_F(SchedulerRoot, WhatRanInsteadIsNamed) {
  Trace trace;
  Job job({.cpus = {0}});
  job.must("init 2 0");
  auto hog = Subprocess::spawn({.argv = {"sh", "-c", "while :; do :; done"}, .cpus = {0}});
  ASSERT_TRUE(hog);
  const pid_t hog_pid = hog->pid();
  for (int i = 0; i < 100 && Procfs().thread_name(hog_pid, hog_pid) != "sh"; ++i) {
    sleep_ms(50);  // before that it has its parent's name
  }
  job.must("spin 1500");
  ASSERT_TRUE(hog->terminate(SIGKILL, std::chrono::seconds(1)));
  trace.stop();
  int64_t by_hog_ns = 0;
  int64_t runnable_ns = 0;
  for (const WaitSpan& wait : trace.waits(job.pid())) {
    if (wait.kind == WaitKind::kRunnable) {
      runnable_ns += wait.waited_ns;
      if (wait.by_pid == hog_pid) {
        by_hog_ns += wait.by_waited_ns;
        EXPECT_EQ(wait.by_name, "sh");
      }
      EXPECT_LE(wait.by_waited_ns, wait.waited_ns);
    }
  }
  EXPECT_GT(runnable_ns, 300'000'000);
  EXPECT_GT(by_hog_ns, 100'000'000);
  EXPECT_GT(waited(trace.waits(job.pid()), WaitKind::kOnCpu), 100'000'000);
}

}  // namespace
}  // namespace stalltrace::capture
