// SPDX-License-Identifier: Apache-2.0
#include "capture/python/stack_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/process/procfs.h"
#include "base/process/subprocess.h"
#include "base/python_frames.h"
#include "capture/python/python_stacks.h"
#include "model/memory_source.h"
#include "tests/support/golden_text.h"

namespace stalltrace::capture {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

ReadStack stack_of(pid_t pid) {
  return {.rank_pid = pid,
          .pid = pid + 1,
          .tid = pid + 2,
          .begun_ns = 5,
          .took_ns = 6,
          .state = "S",
          .activity = "reading FIFO /x",
          .collecting = true,
          .frames = "f (/a.py:1)\ng (/b.py:2)",
          .problem = "none"};
}

/// Everything the reader gave until it finished.
std::vector<ReadStack> all_of(StackReader& reader) {
  std::vector<ReadStack> all;
  while (reader.busy()) {
    pollfd wait{.fd = reader.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, 20);
    for (ReadStack& stack : reader.take(monotonic_now_ns())) {
      all.push_back(std::move(stack));
    }
  }
  return all;
}

std::vector<ReadStack> read_with(const StackReader::Read& read, std::vector<pid_t> pids,
                                 StackReader::Limits limits = {}) {
  StackReader reader(read, limits);
  std::vector<ThreadToRead> threads;
  for (const pid_t pid : pids) {
    threads.push_back({.pid = pid});
  }
  reader.begin(std::move(threads), monotonic_now_ns());
  return all_of(reader);
}

TEST(StackReader, WireThereAndBack) {
  const ReadStack stack = stack_of(7);
  EXPECT_THAT(from_wire(to_wire(stack) + to_wire({}) + "rubbish\x1e" + "a\x1f\x1e"), ElementsAre(stack, ReadStack{}));
}

TEST(StackReader, GivesWhatTheHelperReads) {
  const auto read = [](ThreadToRead thread, const GiveStack& give) {
    const pid_t pid = thread.pid;
    if (pid != 20) {
      give(stack_of(pid));
      give(stack_of(pid + 1));
    }
  };
  StackReader reader(read);
  EXPECT_EQ(reader.descriptor(), -1);
  reader.begin({{.pid = 10}, {.pid = 20}, {.pid = 30}}, monotonic_now_ns());
  EXPECT_THAT(all_of(reader), ElementsAre(stack_of(10), stack_of(11), stack_of(30), stack_of(31)));
  EXPECT_THAT(reader.take_others(), ElementsAre(20));
  EXPECT_EQ(reader.descriptor(), -1);
}

TEST(StackReader, AProcessThatHangsCostsItsDeadlineAndNoOther) {
  const auto read = [](ThreadToRead thread, const GiveStack& give) {
    const pid_t pid = thread.pid;
    if (pid == 20) {
      ::sleep(100);
    }
    give(stack_of(pid));
  };
  const int64_t begun_ns = monotonic_now_ns();
  const auto stacks = read_with(read, {10, 20, 30}, {.process_ns = 200 * kNsPerMs});
  EXPECT_LT(monotonic_now_ns() - begun_ns, 20 * kNsPerSecond);
  ASSERT_THAT(stacks, SizeIs(3));
  EXPECT_EQ(stacks[0], stack_of(10));
  EXPECT_EQ(stacks[1].pid, 20);
  golden::expect_text(stacks[1].problem);
  EXPECT_EQ(stacks[2], stack_of(30));
}

TEST(StackReader, AHelperThatDiesTakesNothingWithIt) {
  const auto read = [](ThreadToRead thread, const GiveStack& give) {
    const pid_t pid = thread.pid;
    if (pid == 20) {
      __builtin_trap();
    }
    give(stack_of(pid));
  };
  const auto stacks = read_with(read, {20, 30});
  ASSERT_THAT(stacks, SizeIs(2));
  golden::expect_text(stacks[0].problem);
  EXPECT_EQ(stacks[1], stack_of(30));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a helper was left";
}

TEST(StackReader, AllTogetherHaveADeadlineToo) {
  const auto read = [](ThreadToRead, const GiveStack&) { ::sleep(100); };
  const auto stacks =
      read_with(read, {1, 2, 3, 4, 5, 6, 7, 8}, {.process_ns = 50 * kNsPerMs, .all_ns = 120 * kNsPerMs});
  EXPECT_THAT(stacks, SizeIs(testing::AllOf(testing::Ge(1U), testing::Le(4U))));
}

/// One that gives something again and again keeps the deadline of a process, but not that of all.
TEST(StackReader, AHelperThatDripsIsEndedToo) {
  const auto read = [](ThreadToRead thread, const GiveStack& give) {
    const pid_t pid = thread.pid;
    for (int i = 0; i < 1000; ++i) {
      give(stack_of(pid));
      ::usleep(50'000);
    }
  };
  const int64_t begun_ns = monotonic_now_ns();
  const auto stacks = read_with(read, {1, 2}, {.process_ns = 5 * kNsPerSecond, .all_ns = 300 * kNsPerMs});
  EXPECT_LT(monotonic_now_ns() - begun_ns, 5 * kNsPerSecond);
  EXPECT_FALSE(stacks.empty()) << "what came in time";
}

/// What the memory that it reads may make of it.
TEST(StackReader, AHelperCanReadAndChangeNothing) {
  const std::string path = testing::TempDir() + "stack_reader_file." + std::to_string(::getpid());
  ASSERT_TRUE(write_file(path, "x"));
  void* shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  const auto read = [&](ThreadToRead thread, const GiveStack& give) {
    const pid_t pid = thread.pid;
    ReadStack tried = stack_of(pid);
    tried.activity += read_file(path).value_or("") == "x" ? 'r' : '-';
    tried.activity += Procfs().start_ticks(::getpid()) > 0 ? 'p' : '-';
    tried.problem += ::open(path.c_str(), O_RDWR) < 0 ? '-' : 'o';
    tried.problem += ::open((path + ".new").c_str(), O_WRONLY | O_CREAT, 0600) < 0 ? '-' : 'c';
    tried.problem += ::unlink(path.c_str()) < 0 ? '-' : 'u';
    tried.problem += ::fork() < 0 ? '-' : 'f';
    tried.problem += ::kill(::getppid(), 0) < 0 ? '-' : 'k';
    tried.problem += ::syscall(SYS_socket, 1, 1, 0) < 0 ? '-' : 's';
    tried.problem += ::syscall(SYS_ptrace, 0, 0, 0, 0) < 0 ? '-' : 't';
    tried.problem +=
        ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? '-' : 'x';
    tried.problem += ::madvise(shared, 4096, MADV_NORMAL) < 0 ? '-' : 'm';
    give(tried);
  };
  const auto stacks = read_with(read, {7});
  ASSERT_THAT(stacks, SizeIs(1));
  EXPECT_EQ(stacks[0].activity, stack_of(7).activity + "rp");
  EXPECT_EQ(stacks[0].problem, stack_of(7).problem + "---------");
  ::munmap(shared, 4096);
  std::filesystem::remove(path);
}

TEST(StackReader, BytesAreBounded) {
  const auto read = [](ThreadToRead thread, const GiveStack& give) {
    const pid_t pid = thread.pid;
    while (true) {
      give(stack_of(pid));
    }
  };
  EXPECT_THAT(read_with(read, {10}, {.most_bytes = 100'000}), SizeIs(testing::Lt(10'000U)));
}

class PythonProcess : public testing::Test {
 protected:
  void start(const std::string& program) {
    ASSERT_TRUE(write_file(file("worker.py"), program));
    auto process = Subprocess::spawn({.argv = {"python3", file("worker.py"), folder_}});
    ASSERT_TRUE(process);
    process_ = std::move(*process);
    for (int i = 0; i < 1000 && !std::filesystem::exists(file("ready")); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(std::filesystem::exists(file("ready")));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  /// Reads it as one whose calls this thread makes.
  ReadStack read_caller(pid_t tid) const {
    StackReader reader;
    reader.begin({{.pid = process_.pid(), .tid = tid}}, monotonic_now_ns());
    const auto stacks = all_of(reader);
    return stacks.empty() ? ReadStack{} : stacks.front();
  }
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "stalltrace-stacks-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  Subprocess process_;
};

TEST_F(PythonProcess, ItsLineAndWhatItReads) {
  ASSERT_EQ(::mkfifo(file("in").c_str(), 0600), 0);
  start(
      "import os, sys\n"
      "def load_batch():\n"
      "    fd = os.open(sys.argv[1] + '/in', os.O_RDWR)\n"
      "    open(sys.argv[1] + '/ready', 'w').close()\n"
      "    os.read(fd, 1)\n"
      "load_batch()\n");
  const auto stacks = read_with(read_rank, {process_.pid()});
  ASSERT_THAT(stacks, SizeIs(1));
  EXPECT_EQ(stacks[0].rank_pid, process_.pid());
  EXPECT_EQ(stacks[0].tid, process_.pid());
  EXPECT_EQ(stacks[0].problem, "");
  EXPECT_EQ(stacks[0].state, "S");
  golden::expect_text(stacks[0].activity, {{folder_, "FOLDER"}});
  EXPECT_GT(stacks[0].took_ns, 0);
  const std::vector<PythonFrame> frames = frames_from_text(stacks[0].frames);
  ASSERT_THAT(frames, SizeIs(2));
  EXPECT_EQ(frames[0], (PythonFrame{"load_batch", file("worker.py"), 5}));
}

TEST_F(PythonProcess, StoppedItIsReadAllTheSame) {
  start(
      "import sys, time\n"
      "def step():\n"
      "    open(sys.argv[1] + '/ready', 'w').close()\n"
      "    while True: pass\n"
      "step()\n");
  ASSERT_EQ(::kill(process_.pid(), SIGSTOP), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto stacks = read_with(read_rank, {process_.pid()});
  ASSERT_THAT(stacks, SizeIs(1));
  EXPECT_EQ(stacks[0].state, "T");
  EXPECT_EQ(stacks[0].activity, "stopped by a signal");
  EXPECT_THAT(stacks[0].frames, StartsWith("step ("));
}

TEST_F(PythonProcess, ItsWorkersAreReadToo) {
  start(
      "import multiprocessing, sys, time\n"
      "def load():\n"
      "    open(sys.argv[1] + '/ready', 'w').close()\n"
      "    time.sleep(100)\n"
      "worker = multiprocessing.get_context('fork').Process(target=load, daemon=True)\n"
      "worker.start()\n"
      "worker.join()\n");
  const auto stacks = read_with(read_rank, {process_.pid()});
  ASSERT_THAT(stacks, SizeIs(2));
  EXPECT_EQ(stacks[1].rank_pid, process_.pid());
  EXPECT_NE(stacks[1].pid, process_.pid());
  EXPECT_THAT(stacks[1].frames, StartsWith("load ("));
  ASSERT_EQ(::kill(stacks[1].pid, SIGKILL), 0);
}

TEST_F(PythonProcess, TheThreadThatMakesTheCalls) {
  start(
      "import sys, threading, time\n"
      "def trainer():\n"
      "    with open(sys.argv[1] + '/tid', 'w') as file: file.write(str(threading.get_native_id()))\n"
      "    open(sys.argv[1] + '/ready', 'w').close()\n"
      "    time.sleep(100)\n"
      "def main():\n"
      "    thread = threading.Thread(target=trainer, daemon=True)\n"
      "    thread.start()\n"
      "    thread.join()\n"
      "main()\n");
  const auto tid = static_cast<pid_t>(std::stol(read_file(file("tid")).value_or("0")));
  ASSERT_NE(tid, process_.pid());
  EXPECT_EQ(read_caller(tid).tid, tid);
  EXPECT_THAT(read_caller(tid).frames, StartsWith("trainer ("));
  EXPECT_EQ(read_caller(0).tid, process_.pid());
  EXPECT_THAT(read_caller(0).frames, HasSubstr("\nmain ("));
  EXPECT_EQ(read_caller(1).tid, process_.pid()) << "a thread that has ended";
}

/// As one that communicates for the main thread: it makes the calls, and waits for work while the main thread is slow.
TEST_F(PythonProcess, ACallerHidesNoMainThreadThatWorks) {
  start(
      "import queue, sys, threading, time\n"
      "def communicate(work):\n"
      "    with open(sys.argv[1] + '/tid', 'w') as file: file.write(str(threading.get_native_id()))\n"
      "    open(sys.argv[1] + '/ready', 'w').close()\n"
      "    work()\n"
      "def main():\n"
      "    thread = threading.Thread(target=communicate, args=[queue.Queue().get], daemon=True)\n"
      "    thread.start()\n"
      "    time.sleep(100)\n"
      "main()\n");
  const auto tid = static_cast<pid_t>(std::stol(read_file(file("tid")).value_or("0")));
  EXPECT_EQ(read_caller(tid).tid, process_.pid());
  EXPECT_THAT(read_caller(tid).frames, StartsWith("main ("));
}

TEST_F(PythonProcess, ACallerWithoutWorkHidesNoMainThreadThatWaits) {
  start(
      "import queue, sys, threading\n"
      "def communicate():\n"
      "    with open(sys.argv[1] + '/tid', 'w') as file: file.write(str(threading.get_native_id()))\n"
      "    open(sys.argv[1] + '/ready', 'w').close()\n"
      "    queue.Queue().get()\n"
      "threading.Thread(target=communicate, daemon=True).start()\n"
      "def main(): threading.Event().wait()\n"
      "main()\n");
  const auto tid = static_cast<pid_t>(std::stol(read_file(file("tid")).value_or("0")));
  EXPECT_EQ(read_caller(tid).tid, process_.pid());
  EXPECT_THAT(read_caller(tid).frames, HasSubstr("\nmain ("));
}

}  // namespace

// Outside the anonymous namespace so that its symbol can be found.
namespace stack_reader_test {
__attribute__((noipa)) void compute_step() {
  while (true) {
    const timespec time{.tv_sec = 100, .tv_nsec = 0};
    ::syscall(SYS_nanosleep, &time, nullptr);  // sanitizers replace the C library's functions
    asm volatile("");                          // the call is no jump
  }
}
}  // namespace stack_reader_test

namespace {

TEST(ReadRank, NativeFramesWhereThereIsNoPython) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    stack_reader_test::compute_step();
  }
  std::vector<ReadStack> stacks;
  const int64_t until_ns = monotonic_now_ns() + 20 * kNsPerSecond;
  const auto asleep = [&] { return stacks.size() == 1 && !stacks[0].frames.empty(); };
  while (!asleep() && monotonic_now_ns() < until_ns) {
    stacks = read_with(read_rank, {child});
  }
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(asleep());
  EXPECT_EQ(stacks[0].tid, child);
  EXPECT_EQ(stacks[0].problem, "");
  const std::vector<PythonFrame> frames = frames_from_text(stacks[0].frames);
  ASSERT_FALSE(frames.empty());
  EXPECT_TRUE(std::ranges::all_of(frames, &PythonFrame::native));
#if defined(__x86_64__)
  const PythonLocation location = location_in(frames);
  EXPECT_THAT(stacks[0].frames, HasSubstr("stack_reader_test::compute_step() [/"));
  EXPECT_THAT(location.own->file, HasSubstr("test_capture"));
#endif
}

TEST(ReadRank, ARunningProcessWithoutPythonIsNoProblem) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (volatile bool forever = true; forever;) {
    }
  }
  std::vector<ReadStack> stacks;
  const int64_t until_ns = monotonic_now_ns() + 20 * kNsPerSecond;
  const auto runs = [&] { return stacks.size() == 1 && stacks[0].activity == "running"; };
  while (!runs() && monotonic_now_ns() < until_ns) {
    stacks = read_with(read_rank, {child});
  }
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(runs());
  EXPECT_EQ(stacks[0].state, "R");
  EXPECT_EQ(stacks[0].frames, "");
  EXPECT_EQ(stacks[0].problem, "");
}

TEST(PythonStacksTest, ARankOfWhichNothingCanBeReadWhileItRunsIsReadRarely) {
  const Node node{.node_id = 3};
  MemorySource rows;
  const auto read = [](ThreadToRead thread, const GiveStack& give) {
    give({.rank_pid = thread.pid, .pid = thread.pid, .tid = thread.pid, .state = "R", .activity = "running"});
  };
  PythonStacks stacks(
      node, rows, [](pid_t) { return 0U; }, read);
  const int64_t start_ns = monotonic_now_ns();
  const auto standings = [&] {
    return std::vector<CallStanding>{{.pid = 11, .entered_ns = start_ns - 5 * kNsPerSecond}};
  };
  const auto count = [&] {
    size_t found = 0;
    EXPECT_TRUE(rows.python_stacks({}, [&](const PythonStack&) { ++found; }));
    return found;
  };
  const auto update_until = [&](int64_t from_ns, size_t wanted) {
    for (int i = 0; i < 100 && (count() < wanted || stacks.descriptor() != -1); ++i) {
      stacks.update(standings, from_ns + i * 10 * kNsPerMs);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return count();
  };
  EXPECT_EQ(update_until(start_ns, 1), 1U);
  EXPECT_EQ(update_until(start_ns + 30 * kNsPerSecond, 2), 1U) << "another sample would be due";
  EXPECT_EQ(update_until(start_ns + 90 * kNsPerSecond, 2), 2U) << "it may wait by now";
}

TEST(PythonStacksTest, RowsOfARankThatIsAwaitedAndEachStackOnce) {
  const Node node{.node_id = 3, .clock_offset_ns = 1'000'000};
  MemorySource rows;
  const auto read = [](ThreadToRead thread, const GiveStack& give) {
    const pid_t pid = thread.pid;
    ReadStack stack = stack_of(pid);
    stack.pid = pid;
    stack.frames = pid == 12 ? "" : stack.frames;
    if (pid != 13) {
      give(stack);
    }
  };
  PythonStacks stacks(
      node, rows, [](pid_t) { return 0U; }, read);
  const int64_t start_ns = monotonic_now_ns();
  size_t asked = 0;
  const auto standings = [&] {
    ++asked;
    const int64_t now_ns = start_ns + node.clock_offset_ns;
    std::vector<CallStanding> all;
    for (const int32_t pid : {10, 11, 12, 13}) {
      all.push_back({.pid = pid, .inside = pid == 10, .entered_ns = now_ns - kNsPerSecond + (pid == 10 ? 5 : 0)});
    }
    return all;
  };
  const auto count = [&] {
    size_t found = 0;
    EXPECT_TRUE(rows.python_stacks({}, [&](const PythonStack&) { ++found; }));
    return found;
  };
  for (int i = 0; i < 500 && count() < 3; ++i) {
    stacks.update(standings, start_ns + i * 10 * kNsPerMs);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::vector<PythonStack> found;
  ASSERT_TRUE(rows.python_stacks({}, [&](const PythonStack& row) { found.push_back(row); }));
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[0].pid, 11);
  EXPECT_EQ(found[0].timestamp_ns, 5 + node.clock_offset_ns);
  EXPECT_EQ(found[1].stack_id, 0);
  EXPECT_EQ(found[2].pid, 10);
  EXPECT_EQ(found[2].stack_id, found[0].stack_id);
  const auto texts = rows.stacks();
  ASSERT_TRUE(texts);
  ASSERT_THAT(*texts, SizeIs(1));
  EXPECT_EQ((*texts)[0].frames, stack_of(0).frames);
  EXPECT_LT(asked, 60U) << "cheap: every 100 ms";
}

}  // namespace
}  // namespace stalltrace::capture
