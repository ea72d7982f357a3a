// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "base/text.h"
#include "import/py_spy/dump.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

const std::string kDump =
    "Process 4711: python train.py --token secret\nPython v3.11.2 (/usr/bin/python3.11)\n\n"
    "Thread 4711 (idle): \"MainThread\"\n    wait (threading.py:320)\n    step (train.py:88)\n        Arguments:\n"
    "            self: <Trainer at 0x7f>\n        Locals:\n            batch: \"    x (y.py:1)\"\n    <module> "
    "(train.py:120)\n"
    "Thread 4720 (active+gil): \"pin (memory)\"\n    copy (pin.py:5)\n    cuMemcpy (libcuda.so.1)\n"
    "Thread 0x7F3C11 (active)\n";

struct Read {
  MemorySource source;
  std::vector<std::string> notes;
  std::vector<PythonStack> rows;
  std::map<int64_t, std::string> frames;
};

std::unique_ptr<Read> read(const std::string& text) {
  EvidenceFolder folder;
  auto out = std::make_unique<Read>();
  const std::vector<std::string> paths{folder.write("dump.txt", text)};
  EXPECT_TRUE(import_py_spy(paths, out->source, [&](const std::string& note) { out->notes.push_back(note); }));
  EXPECT_TRUE(out->source.python_stacks({}, [&](const PythonStack& row) { out->rows.push_back(row); }));
  const std::vector<Stack> stacks = out->source.stacks().value();
  for (const Stack& stack : stacks) {
    out->frames[stack.stack_id] = stack.frames;
  }
  return out;
}

TEST(PySpy, ThreadsAreStacksOfTheirProcess) {
  const auto got = read(kDump);
  ASSERT_EQ(got->rows.size(), 3U);
  EXPECT_EQ(got->rows[0].pid, 4711);
  EXPECT_EQ(got->rows[0].rank_pid, 4711);
  EXPECT_EQ(got->rows[0].tid, 4711);
  EXPECT_EQ(got->rows[0].activity, "idle");
  EXPECT_EQ(got->frames[got->rows[0].stack_id], "wait (threading.py:320)\nstep (train.py:88)\n<module> (train.py:120)");
  EXPECT_EQ(got->rows[1].tid, 4720);
  EXPECT_EQ(got->rows[1].activity, "active+gil");
  EXPECT_EQ(got->frames[got->rows[1].stack_id], "copy (pin.py:5)\ncuMemcpy (libcuda.so.1)");
  EXPECT_EQ(got->rows[2].tid, 0);
  EXPECT_EQ(got->rows[2].stack_id, 0);
  EXPECT_TRUE(got->source.processes().value().empty());  // a command line may hold a secret
  EXPECT_TRUE(got->notes.empty());
}

TEST(PySpy, WithoutItsHeadAProcessHasTheNumberOfItsMainThread) {
  const std::string text =
      "Thread 811 (idle): \"MainThread\"\n    wait (threading.py:320)\nThread 820 (active)\n    copy (pin.py:5)\n"
      "Thread 812 (active): \"MainThread\"\n    step (train.py:88)\n";
  const auto got = read(text);
  ASSERT_EQ(got->rows.size(), 3U);
  EXPECT_EQ(got->rows[0].pid, 811);
  EXPECT_EQ(got->rows[1].pid, 811);
  EXPECT_EQ(got->rows[1].tid, 820);
  EXPECT_EQ(got->rows[2].pid, 812);
  EXPECT_TRUE(got->notes.empty());
}

TEST(PySpy, SeveralProcessesBehindLabels) {
  std::string text;
  const std::string other = "Process 4712: python\nThread 4712 (idle): \"MainThread\"\n    load (data.py:7)\n";
  const std::vector<std::string_view> first = split(kDump, '\n');
  const std::vector<std::string_view> second = split(other, '\n');
  for (size_t i = 0; i < first.size(); ++i) {
    text += fmt::format("0: {}\r\n", first[i]);
    text += i < second.size() ? fmt::format("[1,7]<stdout>:\x1b[1m{}\x1b[0m\n", second[i]) : "";
  }
  const auto got = read(text);
  ASSERT_EQ(got->rows.size(), 4U);
  std::map<int32_t, int> threads;
  for (const PythonStack& row : got->rows) {
    ++threads[row.pid];
  }
  EXPECT_EQ(threads, (std::map<int32_t, int>{{4711, 3}, {4712, 1}}));
}

TEST(PySpy, Json) {
  const std::string frame =
      R"({"name":"step","filename":"/home/u/train.py","module":null,"short_filename":"train.py","line":88,"locals":null})";
  const std::string thread = R"({"pid":4711,"thread_id":139,"thread_name":"MainThread","os_thread_id":4711,)"
                             R"("active":false,"owns_gil":false,"frames":[)" +
                             frame + "," + frame + R"(],"process_info":null})";
  EvidenceFolder folder;
  EXPECT_EQ(detect(folder.write("x", "[" + thread + "]")).value(), std::vector{Format::kPySpy});
  const auto got = read("[" + thread + "," + thread + "]");
  ASSERT_EQ(got->rows.size(), 2U);
  EXPECT_EQ(got->frames[got->rows[0].stack_id], "step (/home/u/train.py:88)\nstep (/home/u/train.py:88)");
  const auto cut = read("[" + thread + "," + thread.substr(0, thread.size() - 30));
  EXPECT_EQ(cut->rows.size(), 1U);
  ASSERT_EQ(cut->notes.size(), 1U);
  EXPECT_EQ(cut->source.losses().value().at(0).count, 1U);
}

TEST(PySpy, WhatIsNoDump) {
  for (const std::string_view line : {"Thread 5 (sleeping)", "Thread x (idle)", "Thread 5 (idle) more", "Thread (idle)",
                                      "Thread 5", " Thread 5 (idle)", "Thread 5 (idle"}) {
    EXPECT_FALSE(is_py_spy_line(line)) << line;
  }
  EXPECT_TRUE(is_py_spy_line("0: Thread 5 (idle)"));
  EvidenceFolder folder;
  EXPECT_EQ(detect(folder.write("a", kDump)).value(), std::vector{Format::kPySpy});
  EXPECT_EQ(detect(folder.write("b", "[{\"frames\": []}]")).value(), std::vector{Format::kUnknown});
}

TEST(PySpy, DamageIsReportedAndCounted) {
  const auto got = read("Thread 9 (idle)\n    lost (x.py:1)\n" + kDump.substr(0, kDump.find("step (train") + 8) + "\n" +
                        "Thread 4712 (idle)\n    " + std::string(10 << 20, 'f') + "\nepoch 5\n    late (x.py:1)\n");
  ASSERT_EQ(got->rows.size(), 2U);
  EXPECT_EQ(got->frames[got->rows[0].stack_id], "wait (threading.py:320)");
  EXPECT_EQ(got->rows[1].stack_id, 0);
  ASSERT_EQ(got->notes.size(), 1U);
  EXPECT_EQ(got->source.losses().value().at(0).count, 3U);
}

}  // namespace
}  // namespace stalltrace::import
