// SPDX-License-Identifier: Apache-2.0
// Whatever a worker does, the command has its start, its environment where there is one, and its exit code.
#include "launch/supervision/supervisor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/golden_text.h"

namespace stalltrace::launch {
namespace {

using std::chrono::milliseconds;
using ::testing::IsEmpty;

constexpr Patience kShort{.start = milliseconds(300),
                          .store = milliseconds(300),
                          .analysis = milliseconds(300),
                          .silence = milliseconds(300)};

struct Outcome {
  std::optional<int> refused;
  Result<int> code = 0;
  std::vector<std::string> errors;
};

std::string rest_of(Supervisor::Loss when, const std::vector<std::string>& environment) {
  return when == Supervisor::Loss::kBeforeTheStart        ? "before the start"
         : when == Supervisor::Loss::kWhileTheCommandRuns ? "while it runs with " + environment.at(1)
         : when == Supervisor::Loss::kAfterItsEnd         ? "after its end"
                                                          : "all is stored";
}

Outcome supervise(const std::string& command, const Worker::Work& work, const Patience& patience = kShort) {
  Outcome outcome;
  Job job;
  Supervisor supervisor(job, "the worker", rest_of, patience, [&](const Error& error) {
    outcome.errors.push_back(error.what + (error.remedy.empty() ? "" : "; " + error.remedy));
  });
  outcome.refused = supervisor.prepare("st-test", work);
  if (outcome.refused) {
    return outcome;
  }
  if (Status started = supervisor.start({"sh", "-c", command}); !started) {
    outcome.code = std::unexpected(started.error());
    return outcome;
  }
  outcome.code = supervisor.wait();
  return outcome;
}

[[noreturn]] void hang() {
  while (true) {
    ::pause();
  }
}

int die() { return ::kill(::getpid(), SIGKILL); }

/// A worker as it should be, that does `more` once the command runs.
Worker::Work good(const std::function<void(JobNews&)>& more = {}) {
  return [more](WorkerSide& side) {
    JobNews job(side);
    job.ready({"WORD=from the worker", "OTHER=1"});
    if (!job.wait_for_start()) {
      return 1;
    }
    if (more) {
      more(job);
    }
    while (!job.code()) {
      pollfd wait{.fd = job.descriptor(), .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, 100);
      job.look();
    }
    job.stored();
    return 0;
  };
}

TEST(Supervisor, AllIsWell) {
  const Outcome outcome = supervise("test \"$WORD\" = 'from the worker' && sleep 0.7 && exit 7", good());
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.errors, IsEmpty());
}

TEST(Supervisor, TheWorkerLearnsTheExitCode) {
  const Outcome known = supervise("kill -USR1 $$", [](WorkerSide& side) {
    JobNews job(side);
    job.ready({});
    job.wait_for_start();
    while (!job.code()) {
      job.look();
    }
    return *job.code() == 128 + SIGUSR1 ? 0 : die();
  });
  EXPECT_EQ(known.code, 128 + SIGUSR1);
  EXPECT_THAT(known.errors, IsEmpty());
}

TEST(Supervisor, AWorkerMayRefuse) {
  const Outcome outcome = supervise("exit 7", [](WorkerSide&) { return 2; });
  EXPECT_EQ(outcome.refused, 2);
  EXPECT_THAT(outcome.errors, IsEmpty());
}

TEST(Supervisor, OneThatDiesBeforeTheStart) {
  const Outcome outcome = supervise("exit 7", [](WorkerSide&) { return die(); });
  EXPECT_FALSE(outcome.refused);
  EXPECT_EQ(outcome.code, 7);
  golden::expect_text(fmt::format("{}", fmt::join(outcome.errors, "\n")));
}

TEST(Supervisor, OneThatHangsBeforeTheStart) {
  const Outcome outcome = supervise("exit 7", [](WorkerSide&) -> int { hang(); });
  EXPECT_EQ(outcome.code, 7);
  golden::expect_text(fmt::format("{}", fmt::join(outcome.errors, "\n")));
}

TEST(Supervisor, OneThatDiesWhileTheCommandRuns) {
  const Outcome outcome = supervise("sleep 0.5; kill -TERM $$", good([](JobNews&) { die(); }));
  EXPECT_EQ(outcome.code, 128 + SIGTERM);
  golden::expect_text(fmt::format("{}", fmt::join(outcome.errors, "\n")));
}

TEST(Supervisor, OneThatHangsWhileTheCommandRunsIsNamedOnceAndKilledAtTheEnd) {
  const Outcome outcome = supervise("sleep 2.2; exit 7", good([](JobNews&) { hang(); }));
  EXPECT_EQ(outcome.code, 7);
  golden::expect_text(fmt::format("{}", fmt::join(outcome.errors, "\n")));
}

TEST(Supervisor, OneThatGetsOnAgain) {
  const Outcome outcome = supervise("sleep 2.5; exit 7", good([](JobNews&) { ::usleep(1'200'000); }),
                                    {.start = milliseconds(300),
                                     .store = milliseconds(300),
                                     .analysis = milliseconds(300),
                                     .silence = milliseconds(700)});
  EXPECT_EQ(outcome.code, 7);
  golden::expect_text(fmt::format("{}", fmt::join(outcome.errors, "\n")));
}

TEST(Supervisor, OneThatHangsOnceAllIsStored) {
  const Outcome outcome = supervise("exit 7", [](WorkerSide& side) -> int {
    good()(side);
    hang();
  });
  EXPECT_EQ(outcome.code, 7);
  golden::expect_text(fmt::format("{}", fmt::join(outcome.errors, "\n")));
}

TEST(Supervisor, OneThatEndsEarlyByItself) {
  const Outcome outcome = supervise("sleep 0.3; exit 7", [](WorkerSide& side) {
    JobNews job(side);
    job.ready({});
    return job.wait_for_start() ? 0 : 1;
  });
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.errors, IsEmpty());
}

TEST(Supervisor, ASignalBeforeTheStartKeepsTheCommandFromStarting) {
  const Outcome outcome = supervise("exit 7", [](WorkerSide& side) {
    ::kill(::getppid(), SIGTERM);
    JobNews job(side);
    return job.wait_for_start() ? 1 : 0;
  });
  ASSERT_FALSE(outcome.code);
  EXPECT_EQ(outcome.code.error().kind, ErrorKind::kInterrupted);
  EXPECT_THAT(outcome.errors, IsEmpty());
}

TEST(Supervisor, ACommandThatCantBeStarted) {
  Job job;
  std::vector<std::string> errors;
  Supervisor supervisor(job, "the worker", rest_of, kShort, [&](const Error& error) { errors.push_back(error.what); });
  ASSERT_FALSE(supervisor.prepare("st-test", good()));
  EXPECT_FALSE(supervisor.start({"/nowhere/at/all"}));
  EXPECT_THAT(errors, IsEmpty());
}

TEST(Supervisor, SignalsThatAskForTheEndAreReported) {
  const Outcome outcome =
      supervise("trap 'sleep 1; exit 9' TERM; kill -TERM $PPID; sleep 0.3; exit 7", [](WorkerSide& side) {
        JobNews job(side);
        job.ready({});
        job.wait_for_start();
        bool asked = false;
        while (!job.code()) {
          job.look();
          asked = asked || job.asked_to_end();
        }
        return asked ? 0 : die();
      });
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.errors, IsEmpty());
}

}  // namespace
}  // namespace stalltrace::launch
