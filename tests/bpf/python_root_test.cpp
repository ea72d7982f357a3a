// SPDX-License-Identifier: Apache-2.0
// What a Python program raised and did not catch, on each installed CPython.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "stacks/testing/python_process.h"
#include "support.h"

namespace stalltrace::capture {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

/// It becomes a traced process by loading the library, and goes on once the kernel has put its breakpoint into the
/// function that prints exceptions.
constexpr auto kProgram = R"(import ctypes, sys, threading, time

library = ctypes.CDLL(sys.argv[1])
code = ctypes.cast(ctypes.pythonapi.PyErr_PrintEx, ctypes.c_void_p).value
while ctypes.string_at(code, 4)[:1] != b"\xcc" and ctypes.string_at(code, 4) != b"\xa0\x00\x20\xd4":
    time.sleep(0.005)
library.ncclGroupStart()  # a call, by which the kernel side knows the process


def load_batch(how):
    if how == "assert":
        assert how == "right", "a secret"
    if how == "memory":
        return bytearray(1 << 62)
    if how == "exit":
        sys.exit(3)
    if how == "file":
        return open("/no/such/file")
    raise ValueError("a secret")


def load_deep(depth):
    return load_deep(depth - 1) if depth > 0 else load_batch("raise")


def main(how):
    if how == "deep":
        load_deep(100)
    elif how == "thread":
        thread = threading.Thread(target=load_batch, args=("raise",))
        thread.start()
        thread.join()
    elif how == "hook":
        sys.excepthook = lambda *what: None
        load_batch("raise")
    else:
        load_batch(how)


main(sys.argv[2])
)";

struct Raised {
  std::vector<PythonException> rows;
  std::vector<std::string> frames;  // of the first row
  int32_t pid = 0;
  int exit_code = -1;
};

class PythonRoot : public testing::Test {
 protected:
  void SetUp() override {
    ST_NEED_ROOT();
    program_ = testing::TempDir() + "python_root_test." + std::to_string(::getpid()) + ".py";
    std::ofstream(program_) << kProgram;
  }
  void TearDown() override { std::filesystem::remove(program_); }

  /// Runs each case as a process of its own, in one trace.
  std::vector<Raised> run(const stacks::Interpreter& interpreter, const std::vector<std::string>& cases) {
    Trace trace;
    std::vector<Raised> all;
    for (const std::string& how : cases) {
      Raised raised;
      auto process =
          Subprocess::spawn({.argv = {interpreter.path, program_, standin_library(), how}, .stderr_path = "/dev/null"});
      EXPECT_TRUE(process);
      if (process) {
        raised.pid = process->pid();
        const auto status = process->wait_for(std::chrono::seconds(30));
        raised.exit_code = status && *status ? (*status)->shell_code() : -1;
      }
      all.push_back(std::move(raised));
    }
    trace.stop();
    const auto stacks = trace.sink().stacks();
    EXPECT_TRUE(trace.sink().python_exceptions({}, [&](const PythonException& row) {
      for (Raised& raised : all) {
        if (raised.pid == row.pid) {
          raised.rows.push_back(row);
        }
      }
    }));
    for (Raised& raised : all) {
      for (const Stack& stack : *stacks) {
        if (!raised.rows.empty() && stack.stack_id == raised.rows[0].stack_id) {
          for (const std::string_view line : split(stack.frames, '\n')) {
            raised.frames.emplace_back(line);
          }
        }
      }
    }
    return all;
  }

  [[nodiscard]] std::string frame(const std::string& function, int line) const {
    return function + " (" + program_ + ":" + std::to_string(line) + ")";
  }

  std::string program_;
};

TEST_F(PythonRoot, TypeAndLineOfEveryKindOfEnd) {
  ASSERT_FALSE(stacks::interpreters().empty());
  for (const stacks::Interpreter& interpreter : stacks::interpreters()) {
    SCOPED_TRACE(interpreter.path);
    const auto ends = run(interpreter, {"raise", "assert", "memory", "exit", "file", "hook", "deep", "thread"});
    struct ExpectedEnd {
      std::string type;
      int line;
      int exit_code;
    };
    const std::vector<ExpectedEnd> expected{{"ValueError", 19, 1}, {"AssertionError", 12, 1},    {"MemoryError", 14, 1},
                                            {"SystemExit", 16, 3}, {"FileNotFoundError", 18, 1}, {"ValueError", 19, 1},
                                            {"ValueError", 19, 1}, {"ValueError", 19, 0}};
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_THAT(ends[i].rows, SizeIs(1)) << "once, though several functions print it";
      EXPECT_EQ(ends[i].rows[0].type, expected[i].type);
      EXPECT_EQ(ends[i].exit_code, expected[i].exit_code);
      ASSERT_FALSE(ends[i].frames.empty());
      EXPECT_EQ(ends[i].frames[0], frame("load_batch", expected[i].line));
    }
    EXPECT_EQ(ends[0].rows[0].depth, 3);
    EXPECT_EQ(ends[0].frames,
              (std::vector<std::string>{frame("load_batch", 19), frame("main", 37), frame("<module>", 40)}));
    EXPECT_EQ(ends[0].rows[0].tid, ends[0].pid);
    EXPECT_EQ(ends[6].rows[0].depth, 104);
    ASSERT_THAT(ends[6].frames, SizeIs(16));
    EXPECT_EQ(ends[6].frames[1], frame("load_deep", 23));
    EXPECT_EQ(ends[6].frames[15], frame("<module>", 40));
    EXPECT_NE(ends[7].rows[0].tid, ends[7].pid) << "a thread's own";
  }
}

}  // namespace
}  // namespace stalltrace::capture
