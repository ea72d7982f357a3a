// SPDX-License-Identifier: Apache-2.0
// Tracebacks of real interpreters (CPython 3.12), with the labels of launchers, amid other lines.
#include "import/nccl_log/tracebacks.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace stalltrace::import {
namespace {

std::vector<LoggedException> exceptions_in(std::string_view text) {
  Tracebacks tracebacks;
  int64_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    tracebacks.take(number, line, [&] { return number * 10; });
  }
  return tracebacks.finish();
}

LoggedException only_in(std::string_view text) {
  const auto found = exceptions_in(text);
  EXPECT_EQ(found.size(), 1U) << text;
  return found.size() == 1 ? found.front() : LoggedException{};
}

/// The lines of a traceback of train.py, each behind `label`; blank lines have none, as those of PyTorch.
std::string raised(std::string_view label, std::string_view last = "ValueError: bad batch", int line = 42) {
  std::string text;
  text += std::string(label) + "Traceback (most recent call last):\n";
  text += std::string(label) + "  File \"/home/u/train.py\", line 88, in <module>\n";
  text += std::string(label) + "    main()\n";
  text += std::string(label) + "  File \"/home/u/train.py\", line " + std::to_string(line) + ", in main\n";
  text += std::string(label) + "    step(batch)\n";
  text += std::string(label) + "    ~~~~^^^^^^^\n";
  return text + std::string(label) + std::string(last) + "\n";
}

TEST(Tracebacks, OfARankWithTheLabelsOfTorch) {
  const LoggedException found = only_in("step 3\n" + raised("[rank1]: ") + "\n");
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.type, "ValueError");
  EXPECT_EQ(found.line, 2);
  EXPECT_EQ(found.time_ns, 20);
  EXPECT_EQ(found.depth, 2);
  EXPECT_FALSE(found.of_communication);
  ASSERT_EQ(found.frames.size(), 2U);
  EXPECT_EQ(found.frames[0], (PythonFrame{"main", "/home/u/train.py", 42}));
  EXPECT_EQ(found.frames[1], (PythonFrame{"<module>", "/home/u/train.py", 88}));
}

TEST(Tracebacks, TheNextLineWithATime) {
  const std::string warning = "[rank1]:[W1126 10:00:00.5 ProcessGroupNCCL.cpp:1496] Warning: destroy_process_group()";
  const LoggedException found =
      only_in("[rank1]:[I1126 09:00:00.5 x.cpp:1] before\n" + raised("[rank1]: ") +
              "[rank0]:[W1126 09:30:00.5 x.cpp:1] another\n" + warning + "\n" + warning + "\n");
  EXPECT_EQ(found.next_text, "[rank1]:[W1126 10:00:00.5 ProcessGroupNCCL.cpp:1496]");  // the message may hold data
  EXPECT_EQ(found.next_line, 10);
  EXPECT_EQ(found.next_ns, 100);
  EXPECT_EQ(only_in(raised("[rank1]: ")).next_line, 0);
}

TEST(Tracebacks, BehindTheLabelsOfLaunchersToo) {
  EXPECT_EQ(only_in(raised("[default3]:[rank7]: ")).rank, 7);
  EXPECT_EQ(only_in(raised("2: [rank7]: ")).rank, 7);
  std::string timed;  // the label has another time in each line
  int second = 10;
  const std::string of_rank = raised("[rank7]: ");
  for (const std::string_view line : split(of_rank, '\n')) {
    timed += "2026-05-05T10:00:" + std::to_string(second++) + ".5Z stdout F " + std::string(line) + "\n";
  }
  EXPECT_EQ(only_in(timed).rank, 7);
  EXPECT_EQ(only_in(timed).frames.size(), 2U);
}

TEST(Tracebacks, LinesOfRanksAlternate) {
  const std::string of_a = raised("[rank0]: ", "ValueError: x", 7);
  const std::string of_b = raised("[rank1]: ", "TypeError: y", 8);
  const std::vector<std::string_view> a = split(of_a, '\n');
  const std::vector<std::string_view> b = split(of_b, '\n');
  std::string text;
  for (size_t i = 0; i < a.size(); ++i) {
    text += std::string(a[i]) + "\nstep 5\n" + std::string(b[i]) + "\n";
  }
  const auto found = exceptions_in(text);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].type, "ValueError");
  EXPECT_EQ(found[0].frames.at(0).line, 7);
  EXPECT_EQ(found[1].type, "TypeError");
  EXPECT_EQ(found[1].frames.at(0).line, 8);
}

TEST(Tracebacks, OfAChainTheFirst) {
  for (const std::string_view link : {"During handling of the above exception, another exception occurred:",
                                      "The above exception was the direct cause of the following exception:"}) {
    const LoggedException found =
        only_in(raised("[rank1]: ") + "\n[rank1]: " + std::string(link) + "\n\n" +
                raised("[rank1]: ", "torch.distributed.DistBackendError: NCCL error in: x, internal error") + "\n");
    EXPECT_EQ(found.type, "ValueError");
    EXPECT_EQ(found.line, 1);
    EXPECT_FALSE(found.of_communication);
  }
}

TEST(Tracebacks, FailedCommunicationFollowsFromAnotherRank) {
  for (const std::string_view last :
       {"torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268",
        "RuntimeError: NCCL communicator was aborted on rank 2.  Original reason for failure was: [Rank 2] Watchdog",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:1",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 17 got signal: 15",
        "KeyboardInterrupt"}) {
    EXPECT_TRUE(only_in(raised("[rank0]: ", last)).of_communication) << last;
  }
  EXPECT_FALSE(only_in(raised("[rank0]: ", "torch.OutOfMemoryError: CUDA out of memory.")).of_communication);
  EXPECT_EQ(only_in(raised("[rank0]: ", "torch.OutOfMemoryError: CUDA out of memory.")).type, "OutOfMemoryError");
  EXPECT_EQ(only_in(raised("[rank0]: ", "AssertionError")).type, "AssertionError");
}

TEST(Tracebacks, OfAGroupItsOwnFrames) {
  const LoggedException found = only_in(
      "[rank1]:   + Exception Group Traceback (most recent call last):\n"
      "[rank1]:   |   File \"/home/u/train.py\", line 5, in <module>\n"
      "[rank1]:   |     raise ExceptionGroup(\"several\", [ValueError(1), TypeError(2)])\n"
      "[rank1]:   | ExceptionGroup: several (2 sub-exceptions)\n"
      "[rank1]:   +-+---------------- 1 ----------------\n"
      "[rank1]:     | Traceback (most recent call last):\n"
      "[rank1]:     |   File \"/home/u/other.py\", line 9, in f\n"
      "[rank1]:     | ValueError: 1\n"
      "[rank1]:     +------------------------------------\n");
  EXPECT_EQ(found.type, "ExceptionGroup");
  ASSERT_EQ(found.frames.size(), 1U);
  EXPECT_EQ(found.frames[0].line, 5);
}

TEST(Tracebacks, InAMessageIsNoOther) {
  const LoggedException found =
      only_in(raised("[rank1]: ", "ValueError: Caught ValueError in DataLoader worker process 0.") +
              "[rank1]: Original " + raised("[rank1]: ", "ValueError: inner").substr(9));
  EXPECT_EQ(found.type, "ValueError");
  EXPECT_EQ(found.line, 1);
  EXPECT_EQ(found.frames.size(), 2U);
}

TEST(Tracebacks, WithoutALabelOnlyWhereTheProgramEnds) {
  EXPECT_EQ(only_in(raised("") + "node0:1:2 [0] NCCL INFO comm 0x1 - Abort COMPLETE\n").rank, std::nullopt);
  EXPECT_FALSE(only_in(raised("")).labelled);
  EXPECT_EQ(only_in(raised("") + "\nDuring handling of the above exception, another exception occurred:\n\n" +
                    raised("", "TypeError: later"))
                .type,
            "ValueError");
  EXPECT_TRUE(exceptions_in(raised("") + "step 4, loss 0.3\n").empty());  // the program printed it and went on
  EXPECT_TRUE(exceptions_in("Exception in thread Thread-1 (pull):\n" + raised("")).empty());
  EXPECT_TRUE(exceptions_in("Exception ignored in: <function A.__del__ at 0x7f>\n" + raised("")).empty());
}

TEST(Tracebacks, TorchrunsLabelsAreRanksOnOneHostAlone) {
  const std::string one_host = "[default0]:[rank0]:[E505 10:00:00.5 ProcessGroupNCCL.cpp:632] [Rank 0] x\n";
  EXPECT_EQ(only_in(one_host + raised("[default1]:")).rank, 1);
  EXPECT_EQ(only_in("[default0]:[E ProcessGroupNCCL.cpp:828] [Rank 0] x\n" + raised("[default1]:")).rank, 1);
  const std::string two_hosts = one_host + "[default0]:[rank8]:[E505 10:00:00.5 ProcessGroupNCCL.cpp:632] x\n";
  EXPECT_EQ(only_in(two_hosts + raised("[default1]:")).rank, std::nullopt);
  EXPECT_EQ(only_in(raised("[default1]:")).rank, std::nullopt);
  EXPECT_TRUE(only_in(raised("[default1]:")).labelled);
  EXPECT_EQ(only_in("[rank0]:[E505 10:00:00.5 ProcessGroupNCCL.cpp:632] x\n" + raised("[default1]:")).rank,
            std::nullopt);
}

TEST(Tracebacks, DamageLeavesNone) {
  const std::string whole = raised("[rank1]: ");
  EXPECT_TRUE(exceptions_in(whole.substr(0, whole.find("ValueError"))).empty());
  EXPECT_TRUE(exceptions_in("[rank1]: Traceback (most recent call last):\n[rank1]: ?? :\n").empty());
  EXPECT_TRUE(exceptions_in("").empty());
  // Of a deep one both ends are kept.
  std::string deep = "[rank1]: Traceback (most recent call last):\n";
  for (int i = 1; i <= 1000; ++i) {
    deep += "[rank1]:   File \"a.py\", line " + std::to_string(i) + ", in f\n";
  }
  const LoggedException found = only_in(deep + "[rank1]: RecursionError: maximum recursion depth exceeded\n");
  EXPECT_EQ(found.depth, 1000);
  EXPECT_EQ(found.frames.size(), 16U);
  EXPECT_EQ(found.frames.front().line, 1000);
  EXPECT_EQ(found.frames.back().line, 1);
}

TEST(Tracebacks, AreRecognisedByTheLabelOfARank) {
  EXPECT_TRUE(is_ranks_traceback("[rank1]: Traceback (most recent call last):"));
  EXPECT_TRUE(is_ranks_traceback("[default0]:[rank12]: Traceback (most recent call last):"));
  EXPECT_FALSE(is_ranks_traceback("Traceback (most recent call last):"));
  EXPECT_FALSE(is_ranks_traceback("[rank1]: Original Traceback (most recent call last):"));
  EXPECT_FALSE(is_ranks_traceback("[rankx]: Traceback (most recent call last):"));
}

}  // namespace
}  // namespace stalltrace::import
