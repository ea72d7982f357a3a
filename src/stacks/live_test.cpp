// SPDX-License-Identifier: Apache-2.0
// Live interpreters: the frames read from outside match those that Python reports itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "stacks/output/describe.h"
#include "stacks/process_stacks.h"
#include "stacks/testing/python_process.h"
#include "tests/support/golden_text.h"

namespace stalltrace::stacks {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class EachInterpreter : public testing::TestWithParam<size_t> {
 protected:
  const Interpreter& interpreter() const { return interpreters()[GetParam()]; }

  TestProcess start(const std::string& program, std::vector<std::string> arguments = {}) {
    auto process = start_test_process(interpreter(), program, std::move(arguments));
    EXPECT_TRUE(process);
    // The program writes the file before it reaches the line that the test waits for.
    const auto arrived = [](const ProcessStacks& stacks) {
      return std::ranges::none_of(stacks.threads, [](const ThreadStack& thread) {
        return thread.python && std::ranges::any_of(thread.python->frames, [](const PythonFrame& frame) {
                 return frame.function == "ready" || frame.function == "report";
               });
      });
    };
    return process && read_until(process->process.pid(), arrived) ? std::move(*process) : TestProcess();
  }

  /// The first reading that meets the condition; nullopt if none does within 20 s.
  std::optional<ProcessStacks> read_until(pid_t pid, const std::function<bool(const ProcessStacks&)>& wanted) {
    for (int i = 0; i < 2000; ++i) {
      Descriptors descriptors(procfs_);
      auto stacks = read_process(procfs_, descriptors, pid, {.peers = true});
      if (stacks && wanted(*stacks)) {
        return std::move(*stacks);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "process " << pid << " never was where it should be";
    return std::nullopt;
  }

  static bool sleeps_in(const ThreadStack& thread, std::string_view function) {
    return thread.blocked && thread.blocked->call && thread.python && !thread.python->frames.empty() &&
           thread.python->frames[0].function == function;
  }

  ProcessStacks read(const TestProcess& process) {
    Descriptors descriptors(procfs_);
    auto stacks = read_process(procfs_, descriptors, process.process.pid());
    EXPECT_TRUE(stacks) << stacks.error().what;
    return stacks ? std::move(*stacks) : ProcessStacks();
  }

  static const PythonThread* python_of(const ProcessStacks& stacks) {
    const ThreadStack* thread = main_thread(stacks);
    return thread != nullptr && thread->python ? &*thread->python : nullptr;
  }

  Procfs procfs_;
};

TEST(Interpreters, ThereIsOne) { EXPECT_THAT(interpreters(), testing::Not(IsEmpty())) << "python3 is in packages.txt"; }

TEST_P(EachInterpreter, BlockedThreadsAreWherePythonSaysThatTheyAre) {
  const TestProcess process = start("blocked_threads.py");
  const auto expected = nlohmann::json::parse(process.text);
  const ProcessStacks stacks = read(process);
  ASSERT_FALSE(stacks.no_python) << stacks.no_python->what;
  EXPECT_EQ(stacks.python->minor, interpreter().minor);
  EXPECT_THAT(stacks.notes, IsEmpty());
  EXPECT_THAT(stacks.unnumbered, IsEmpty());
  size_t compared = 0;
  for (const ThreadStack& thread : stacks.threads) {
    const auto report = expected.find(std::to_string(thread.tid));
    ASSERT_NE(report, expected.end()) << thread.tid;
    ASSERT_TRUE(thread.python) << thread.tid;
    EXPECT_EQ(thread.python->problem, "");
    EXPECT_EQ(thread.python->changing, 0U);
    EXPECT_EQ(thread.python->holds_gil, false);
    ASSERT_EQ(thread.python->frames.size(), report->size()) << report->dump();
    for (size_t i = 0; i < report->size(); ++i) {
      const PythonFrame& frame = thread.python->frames[i];
      EXPECT_EQ(frame.function, (*report)[i][0].get<std::string>());
      EXPECT_EQ(frame.file, (*report)[i][1].get<std::string>());
      EXPECT_EQ(frame.line, (*report)[i][2].get<int>()) << frame.function << " in " << frame.file;
    }
    ++compared;
  }
  EXPECT_EQ(compared, expected.size());
  EXPECT_GE(compared, 10U);
}

TEST_P(EachInterpreter, WhatABlockedThreadWaitsFor) {
  const TestProcess process = start("running_threads.py", {"fifo"});
  const auto read =
      read_until(process.process.pid(), [](const ProcessStacks& now) { return sleeps_in(now.threads[0], "fifo"); });
  ASSERT_TRUE(read);
  const ProcessStacks& stacks = *read;
  const auto& blocked = main_thread(stacks)->blocked;
  ASSERT_TRUE(blocked && blocked->call);
  EXPECT_EQ(call_name(blocked->call->number), "read");
  ASSERT_THAT(blocked->descriptors, SizeIs(1));
  EXPECT_EQ(blocked->descriptors[0].link, process.file + ".fifo");
  ::unlink((process.file + ".fifo").c_str());
  if (!blocked->wchan.empty()) {
    EXPECT_THAT(blocked->descriptors[0].peers, Contains(Field(&PeerProcess::itself, true)));
  }
}

TEST_P(EachInterpreter, NativeFramesReachTheInterpreter) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "callers are found on x86-64 only";
#endif
  const TestProcess process = start("running_threads.py", {"fifo"});
  ASSERT_TRUE(
      read_until(process.process.pid(), [](const ProcessStacks& now) { return sleeps_in(now.threads[0], "fifo"); }));
  Descriptors descriptors(procfs_);
  const auto stacks = read_process(procfs_, descriptors, process.process.pid(), {.native = true});
  ::unlink((process.file + ".fifo").c_str());
  ASSERT_TRUE(stacks);
  const ThreadStack& thread = *main_thread(*stacks);
  ASSERT_TRUE(thread.native);
  EXPECT_EQ(thread.native->problem, "");
  const auto& frames = thread.native->frames;
  ASSERT_GE(frames.size(), 2U);
  EXPECT_THAT(frames[0].file, HasSubstr("libc"));
  EXPECT_THAT(frames[1].file, HasSubstr("python")) << frames_to_text(frames);
  ASSERT_TRUE(thread.python);
  EXPECT_EQ(thread.python->frames.front().function, "fifo");
}

TEST_P(EachInterpreter, ABusyThreadHoldsTheGil) {
  const TestProcess process = start("running_threads.py", {"busy"});
  for (int i = 0; i < 20; ++i) {
    const ProcessStacks stacks = read(process);
    const PythonThread* python = python_of(stacks);
    ASSERT_NE(python, nullptr);
    EXPECT_EQ(python->holds_gil, true);
    ASSERT_THAT(python->frames, SizeIs(2));
    EXPECT_EQ(python->frames[0].function, "busy");
    EXPECT_THAT(python->frames[0].line.value_or(0), AnyOf(48, 49));
    EXPECT_EQ(python->frames[1].function, "<module>");
    EXPECT_FALSE(main_thread(stacks)->blocked) << describe_wait(*main_thread(stacks));
  }
}

TEST_P(EachInterpreter, WhoWaitsForTheGilSaysSo) {
  const TestProcess process = start("running_threads.py", {"gil"});
  size_t waiting = 0;
  for (int i = 0; i < 500 && waiting < 10; ++i) {
    const ProcessStacks stacks = read(process);
    size_t holders = 0;
    for (const ThreadStack& thread : stacks.threads) {
      ASSERT_TRUE(thread.python);
      const bool waits = thread.blocked && thread.blocked->for_gil;
      waiting += waits ? 1 : 0;
      holders += thread.python->holds_gil == true ? 1 : 0;
      // A thread that calls a function repeatedly: its inner frames may change, the enclosing frames may not.
      ASSERT_FALSE(thread.python->frames.empty()) << thread.python->problem;
      const bool own = std::ranges::any_of(thread.python->frames,
                                           [](const PythonFrame& frame) { return frame.function == "calling"; });
      EXPECT_TRUE(own || thread.python->frames.size() <= 5);
    }
    EXPECT_LE(holders, stacks.threads.size());
  }
  EXPECT_GE(waiting, 10U) << "two of three threads wait";
}

TEST_P(EachInterpreter, FramesThatComeAndGoAreNeverMixedUnnoticed) {
  const TestProcess process = start("running_threads.py", {"changing"});
  size_t whole = 0;
  for (int i = 0; i < 100; ++i) {
    const ProcessStacks stacks = read(process);
    const PythonThread* python = python_of(stacks);
    ASSERT_NE(python, nullptr);
    if (python->changing > 0 || !python->problem.empty()) {
      continue;
    }
    ++whole;
    const auto& frames = python->frames;
    ASSERT_GE(frames.size(), 3U);
    EXPECT_EQ(frames[frames.size() - 1].function, "<module>");
    EXPECT_EQ(frames[frames.size() - 2].function, "changing");
    EXPECT_EQ(frames[frames.size() - 3].function, "up_and_down");
    for (size_t at = 0; at + 3 < frames.size(); ++at) {
      EXPECT_EQ(frames[at].function, "recursion");
    }
  }
  EXPECT_GE(whole, 30U) << "most readings agree within a few tries";
}

TEST_P(EachInterpreter, ACollectionIsSeen) {
  const TestProcess process = start("running_threads.py", {"collect"});
  size_t seen = 0;
  for (int i = 0; i < 20; ++i) {
    const ProcessStacks stacks = read(process);
    ASSERT_NE(python_of(stacks), nullptr);
    EXPECT_EQ(python_of(stacks)->frames.front().function, "collect");
    seen += python_of(stacks)->collecting ? 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GE(seen, 10U);
}

TEST_P(EachInterpreter, ThreadsThatStartAndEnd) {
  const TestProcess process = start("running_threads.py", {"starting"});
  size_t read_well = 0;
  for (int i = 0; i < 50; ++i) {
    const ProcessStacks stacks = read(process);
    const PythonThread* python = python_of(stacks);
    if (python == nullptr) {
      EXPECT_TRUE(stacks.no_python || !stacks.unnumbered.empty()) << "reported, where it could not be read";
      continue;
    }
    if (python->problem.empty() && python->changing == 0) {
      ++read_well;
      ASSERT_FALSE(python->frames.empty());
      EXPECT_EQ(python->frames.back().function, "<module>");
    }
  }
  EXPECT_GE(read_well, 10U);
}

TEST_P(EachInterpreter, AForkHasItsOwnNumbers) {
  const TestProcess process = start("running_threads.py", {"forked"});
  pid_t child = 0;
  for (const pid_t pid : procfs_.pids()) {
    child = procfs_.parent(pid) == process.process.pid() ? pid : child;
  }
  ASSERT_GT(child, 0);
  // Python runs its own code in a child first.
  const auto stacks = read_until(child, [](const ProcessStacks& now) { return sleeps_in(now.threads[0], "forked"); });
  ::kill(child, SIGKILL);
  ASSERT_TRUE(stacks);
  EXPECT_THAT(stacks->threads, SizeIs(1));
  EXPECT_THAT(stacks->unnumbered, IsEmpty());
}

TEST_P(EachInterpreter, EndlessRecursionIsCutAndSaysSo) {
  const TestProcess process = start("running_threads.py", {"too_deep"});
  const int64_t begun_ns = monotonic_now_ns();
  const ProcessStacks stacks = read(process);
  EXPECT_LT(monotonic_now_ns() - begun_ns, 10 * kNsPerSecond);
  const auto deep = std::ranges::find_if(stacks.threads, [](const ThreadStack& thread) {
    return thread.python && !thread.python->frames.empty() &&
           thread.python->frames[0].function == "too_deep.<locals>.deep";
  });
  const auto by_name = std::ranges::find_if(stacks.threads, [](const ThreadStack& thread) {
    return thread.python && !thread.python->frames.empty() && thread.python->frames[0].function == "deep";
  });
  const auto found = deep != stacks.threads.end() ? deep : by_name;
  ASSERT_NE(found, stacks.threads.end());
  golden::expect_text(found->python->problem);
  EXPECT_GT(found->python->left_out, 19'000U);
  EXPECT_THAT(found->python->frames, SizeIs(250));
}

std::vector<size_t> all() {
  std::vector<size_t> numbers(interpreters().size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = i;
  }
  return numbers;
}

INSTANTIATE_TEST_SUITE_P(Live, EachInterpreter, testing::ValuesIn(all()), [](const auto& one) {
  return "Python3_" + std::to_string(interpreters()[one.param].minor) + "_" + std::to_string(one.param);
});

TEST(ReadProcess, WhatIsNotThereOrNotPython) {
  const Procfs procfs;
  Descriptors descriptors(procfs);
  const auto gone = read_process(procfs, descriptors, 0x3fffffff);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().kind, ErrorKind::kNotFound);
  const auto own = read_process(procfs, descriptors, ::getpid());
  ASSERT_TRUE(own);
  ASSERT_TRUE(own->no_python);
  EXPECT_EQ(own->no_python->kind, ErrorKind::kUnsupported);
  golden::expect_text(own->no_python->what, {{std::to_string(::getpid()), "PID"}});
  EXPECT_FALSE(own->no_python->remedy.empty());
  ASSERT_FALSE(own->threads.empty());
  EXPECT_FALSE(own->threads[0].python);
}

}  // namespace
}  // namespace stalltrace::stacks
