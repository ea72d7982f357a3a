// SPDX-License-Identifier: Apache-2.0
// Reads the stacks of processes in a helper process, which may block with them: it is given up after a deadline, so
// that the thread that reads the kernel's rings never waits. A helper that is subverted by a process's memory can harm
// only itself. The processes are neither stopped nor changed. One thread, the one that may fork.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/handle.h"
#include "base/untrusted/killed_children.h"

namespace stalltrace::capture {

/// The stack read from one process. Texts are printable.
struct ReadStack {
  pid_t rank_pid = 0;
  pid_t pid = 0;
  pid_t tid = 0;
  int64_t begun_ns = 0;  // CLOCK_MONOTONIC
  int64_t took_ns = 0;
  std::string state;
  std::string activity;
  bool collecting = false;
  std::string frames;  // base/python_frames.h
  std::string problem;

  bool operator==(const ReadStack&) const = default;
};

/// Serialise for the helper's pipe, and back; malformed records are skipped.
std::string to_wire(const ReadStack& stack);
std::vector<ReadStack> from_wire(std::string_view text);

/// Which thread of a process to read: `tid` made its newest call; 0: not known.
struct ThreadToRead {
  pid_t pid = 0;
  pid_t tid = 0;
};

/// A helper's work for one process: reports the stack of its main thread, or, while that waits for other threads, of
/// the thread that makes its calls, unless that waits for threads as well or runs no Python code of a Python process:
/// Python frames, where there are none native ones. A process that is not Python and runs has neither frames nor a
/// problem. Where the thread waits for workers, it reports those of the process's Python descendants too, at most
/// kMostChildren. Reports nothing for a process that has ended, and the problem for one that can't be read.
inline constexpr size_t kMostChildren = 8;
/// Limit without output of the helper: the process that it reads hangs.
inline constexpr int64_t kStackOfProcessNs = 500 * kNsPerMs;
/// Limit for all processes that were requested together.
inline constexpr int64_t kStacksTogetherNs = 3 * kNsPerSecond;
using GiveStack = std::function<void(const ReadStack&)>;
void read_rank(ThreadToRead thread, const GiveStack& give);

class StackReader {
 public:
  struct Limits {
    int64_t process_ns = kStackOfProcessNs;
    int64_t all_ns = kStacksTogetherNs;
    size_t most_bytes = 4U << 20;  // limit of one helper's output
    size_t most_stuck = 2;         // limit of helpers that outlive SIGKILL by a second: no more are started then
  };
  using Read = std::function<void(ThreadToRead, const GiveStack&)>;

  explicit StackReader(Read read = read_rank) : StackReader(std::move(read), Limits()) {}
  StackReader(Read read, Limits limits) : read_(std::move(read)), limits_(limits) {}
  StackReader(const StackReader&) = delete;
  StackReader& operator=(const StackReader&) = delete;
  ~StackReader() { end_helper(); }

  /// Reads these processes, one after the other. Does nothing while another reading is under way, or while too many
  /// helpers can't be killed.
  void begin(std::vector<ThreadToRead> threads, int64_t now_ns);
  [[nodiscard]] bool busy() const { return helper_ > 0; }
  /// Becomes readable when there is something to take; -1 while no reading is under way.
  [[nodiscard]] int descriptor() const { return pipe_.get(); }
  /// Returns what has arrived since the last call. Never waits. Call it repeatedly while busy(): it enforces the
  /// deadlines.
  std::vector<ReadStack> take(int64_t now_ns);
  /// Processes of which nothing was read since the last call: they have ended.
  std::vector<pid_t> take_others() { return std::exchange(others_, {}); }

 private:
  void start(int64_t now_ns);
  void end_helper();
  [[nodiscard]] bool too_many_stuck();
  bool parse(bool ended, std::vector<ReadStack>& stacks);

  Read read_;
  Limits limits_;
  std::vector<ThreadToRead> threads_;  // still to be read; the first is being read
  int64_t begun_ns_ = 0;
  int64_t received_ns_ = 0;
  pid_t helper_ = 0;
  UniqueFd pipe_;
  std::string text_;  // not yet parsed
  size_t bytes_ = 0;
  bool gave_ = false;  // the process being read has given something
  KilledChildren killed_;
  std::vector<pid_t> others_;
};

}  // namespace stalltrace::capture
