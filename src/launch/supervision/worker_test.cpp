// SPDX-License-Identifier: Apache-2.0
#include "launch/supervision/worker.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <stdexcept>
#include <string>

#include "base/file.h"
#include "base/io/pipe.h"
#include "base/memory/worker_memory.h"
#include "tests/support/golden_text.h"

namespace stalltrace::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSoon{10'000};

Worker start(const Worker::Work& work) {
  auto worker = Worker::start("st-test", work);
  EXPECT_TRUE(worker);
  return std::move(*worker);
}

/// How a worker that does this ends.
ExitStatus end_of(const Worker::Work& work) { return start(work).wait_for(kSoon).value_or(ExitStatus{}); }

int sleep_for_ever(WorkerSide&) {
  while (true) {
    ::pause();
  }
}

TEST(Worker, ItsResultIsItsExitCode) {
  EXPECT_EQ(end_of([](WorkerSide&) { return 3; }).code, 3);
  EXPECT_FALSE(unexpected_end(ExitStatus{.code = 3, .signal = {}}));
}

TEST(Worker, ItsDeathIsNoHarm) {
  const ExitStatus killed = end_of([](WorkerSide&) { return ::kill(::getpid(), SIGBUS); });
  golden::expect_text(unexpected_end(killed).value_or(""));
  for (const bool memory : {true, false}) {
    const ExitStatus failed = end_of([&](WorkerSide&) -> int {
      if (memory) {
        throw std::bad_alloc();
      }
      throw std::runtime_error("a test's");
    });
    EXPECT_EQ(failed.code, Worker::kFailedCode);
    EXPECT_EQ(unexpected_end(failed), "gave up");
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsLimited = true;
#else
constexpr bool kMemoryIsLimited = false;
#endif

TEST(Worker, GoesFirstWhenMemoryRunsOutAndHasLittle) {
  const ExitStatus end = end_of([](WorkerSide&) {
    rlimit limit{};
    ::getrlimit(RLIMIT_AS, &limit);
    const bool first = read_file("/proc/self/oom_score_adj").value_or("") == "1000\n";
    return first && (limit.rlim_cur == memory_of_a_worker() || !kMemoryIsLimited) ? 0 : 1;
  });
  EXPECT_EQ(end.code, 0);
  EXPECT_NE(read_file("/proc/self/oom_score_adj").value_or(""), "1000\n") << "we don't";
}

TEST(Worker, MessagesBothWays) {
  Worker worker = start([](WorkerSide& parent) {
    pollfd wait{.fd = parent.channel.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, -1);
    const auto asked = parent.channel.receive();
    parent.channel.send(MessageKind::kReady, asked ? asked->bytes + "!" : "");
    return 0;
  });
  EXPECT_TRUE(worker.channel().send(MessageKind::kStarted, "words"));
  EXPECT_EQ(worker.wait_for(kSoon)->code, 0);
  const auto answer = worker.channel().receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, MessageKind::kReady);
  EXPECT_EQ(answer->bytes, "words!");
  EXPECT_FALSE(worker.channel().receive());
  EXPECT_TRUE(worker.channel().is_closed());
  EXPECT_FALSE(worker.channel().send(MessageKind::kEnded)) << "no signal either";
}

TEST(Worker, TheLauncherWaitsForNoneThatDoesNotRead) {
  Worker worker = start(sleep_for_ever);
  int sent = 0;
  while (worker.channel().send(MessageKind::kAlive) && sent < 1'000'000) {
    ++sent;
  }
  EXPECT_GT(sent, 10);
  EXPECT_LT(sent, 1'000'000);
}

TEST(Worker, FinishesWhenAsked) {
  Worker worker = start([](WorkerSide& parent) {
    pollfd stop{.fd = parent.stop.get(), .events = POLLIN, .revents = 0};
    return ::poll(&stop, 1, static_cast<int>(kSoon.count())) == 1 ? 0 : 1;
  });
  EXPECT_FALSE(worker.wait_for(milliseconds(50)));
  worker.ask_to_finish();
  EXPECT_EQ(worker.wait_for(kSoon)->code, 0);
}

TEST(Worker, IsKilledAlsoWhenStopped) {
  pid_t pid = 0;
  {
    const Worker worker = start(sleep_for_ever);
    pid = worker.pid();
    ::kill(pid, SIGSTOP);
  }
  EXPECT_EQ(::waitpid(pid, nullptr, 0), -1) << "reaped";
}

TEST(Worker, EndsWithItsParent) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const Worker worker = start(sleep_for_ever);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(parent, nullptr, 0);
  pipe->write_end.reset();
  pollfd end{.fd = pipe->read_end.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&end, 1, static_cast<int>(kSoon.count())), 1) << "no process has the other end any more";
  EXPECT_EQ(end.revents & POLLHUP, POLLHUP);
}

}  // namespace
}  // namespace stalltrace::launch
