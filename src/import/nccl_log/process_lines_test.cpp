// SPDX-License-Identifier: Apache-2.0
// Lines of a job's output on the end of single processes.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported/process_report.h"

namespace stalltrace::import {
namespace {

/// In the order of their lines.
std::vector<LogLine> process_rows(const std::string& content) {
  EvidenceFolder folder;
  const std::string path = folder.write("job.log", content);
  EXPECT_EQ(detect(path).value(), std::vector{Format::kNcclLog});
  MemorySource source;
  EXPECT_TRUE(import_nccl_logs(std::vector{path}, source, [](const std::string&) {}, {}));
  std::vector<LogLine> rows = lines_of(source, LogKind::kWarning);
  std::ranges::sort(rows, {}, &LogLine::line);
  std::erase_if(rows, [](const LogLine& row) { return !read_process_report(row.text); });
  return rows;
}

constexpr std::string_view kTable =
    R"(E0505 10:00:04.000000 77 torch/distributed/elastic/api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 301) of binary: /usr/bin/python3
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-05-05_10:00:34
  host      : alpha
  rank      : 4 (local_rank: 0)
  exitcode  : -15 (pid: 300)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 300
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-05-05_10:00:04
  host      : alpha
  rank      : 5 (local_rank: 1)
  exitcode  : -9 (pid: 301)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 301
============================================================
  rank      : 6 (local_rank: 2)
  exitcode  : -9 (pid: 302)
)";

TEST(ProcessLines, TorchrunsTable) {
  for (const std::string_view label : {"", "[default0]:"}) {
    std::string text;
    for (const std::string_view line : split(kTable, '\n')) {
      text += std::string(label) + std::string(line) + "\n";
    }
    const std::vector<LogLine> rows = process_rows(text);
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_EQ(rows[0].rank, std::nullopt);
    EXPECT_EQ(read_process_report(rows[0].text)->ended.local_rank, 1);
    EXPECT_EQ(rows[1].rank, 4);
    EXPECT_FALSE(read_process_report(rows[1].text)->ended.first);
    EXPECT_EQ(rows[2].rank, 5);
    const EndedProcess root = read_process_report(rows[2].text)->ended;
    EXPECT_TRUE(root.first);
    EXPECT_EQ(root.exit_code, -9);
    EXPECT_EQ(root.pid, 301);
    EXPECT_EQ(root.host, "alpha");
    EXPECT_EQ(root.time, "2026-05-05_10:00:04");
  }
}

TEST(ProcessLines, ErrorsAndTheWatchdogItself) {
  const std::vector<LogLine> rows = process_rows(
      "[rank2]:[E505 10:10:03.4 ProcessGroupNCCL.cpp:1595] [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group "
      "watchdog "
      "thread terminated with exception: CUDA error: misaligned address\n"
      "[rank3]:[E505 10:10:03.5 ProcessGroupNCCL.cpp:1484] [PG ID 2 PG GUID 9 Rank 1] ProcessGroupNCCL's watchdog got "
      "stuck for 480 seconds without making progress\n"
      "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 4] Process group watchdog thread terminated with exception: NCCL "
      "error: remote process exited or there was a network error, NCCL version 2.22.3\n"
      "Last error:\nsocketProgress: Connection closed by remote peer beta<40123>\n");
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].rank, 2);
  EXPECT_EQ(rows[1].rank, 3);
  EXPECT_EQ(rows[2].rank, 4);
  EXPECT_EQ(rows[3].rank, 4);
}

TEST(ProcessLines, AWarningWithoutItsProcessIsKept) {
  EvidenceFolder folder;
  const std::string path = folder.write("job.log", "[3] include/shm.h:28 NCCL WARN full\n[3] NCCL INFO x -> 2\n");
  EXPECT_EQ(detect(path).value(), std::vector{Format::kNcclLog});
  MemorySource source;
  EXPECT_TRUE(import_nccl_logs(std::vector{path}, source, [](const std::string&) {}, {}));
  const std::vector<LogLine> rows = lines_of(source, LogKind::kWarning);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].pid, 0);
  EXPECT_EQ(rows[0].text, "[3] include/shm.h:28 NCCL WARN full");
}

TEST(ProcessLines, OfErrorsThatFunctionsReturnedTheFirstIsKept) {
  EvidenceFolder folder;
  const std::string head = "alpha:7:8 [0] NCCL INFO ";
  const std::string path = folder.write(
      "job.log", head + "init.cc:3 -> 7\n" + head + "misc/socket.cc:64 -> 2\n" + head + "group.cc:9 -> 2\n");
  MemorySource source;
  EXPECT_TRUE(import_nccl_logs(std::vector{path}, source, [](const std::string&) {}, {}));
  const std::vector<LogLine> rows = lines_of(source, LogKind::kWarning);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].text, "misc/socket.cc:64 -> 2");
}

TEST(ProcessLines, OfAnExceptionOnlyCudasOwnTextIsKept) {
  const std::vector<LogLine> rows = process_rows(
      "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/home/u/train.py\", line 42, in step\n"
      "[rank1]: RuntimeError: CUDA error: misaligned address of my secret\n");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].rank, 1);
  EXPECT_EQ(rows[0].text, "CUDA error: misaligned address");
}

}  // namespace
}  // namespace stalltrace::import
