// SPDX-License-Identifier: Apache-2.0
// Reads the stacks of processes in a helper process of our own, which may block as they do: it is given up after a
// deadline, and whoever reads the kernel's rings never waits. A helper that is hurt by what a process's memory holds
// takes nothing with it. The processes are neither stopped nor changed. One thread, the one that may fork.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/handle.h"

namespace stalltrace::capture {

/// What was seen of one process. Texts are printable.
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

/// Both ways through the helper's pipe; what is no record is left out.
std::string to_wire(const ReadStack& stack);
std::vector<ReadStack> from_wire(std::string_view text);

/// What a helper does for one process: gives its main thread's stack, then, where that waits for workers, those of its
/// descendants that are Python, at most kMostChildren. Nothing for a process that is not Python; of one that can't be
/// read, the problem.
inline constexpr size_t kMostChildren = 8;
using GiveStack = std::function<void(const ReadStack&)>;
void read_rank(pid_t pid, const GiveStack& give);

class StackReader {
 public:
  struct Limits {
    int64_t process_ns = 500 * kNsPerMs;  // without anything from the helper: the process hangs
    int64_t all_ns = 3 * kNsPerSecond;    // for all that were asked for at once
    size_t most_bytes = 4U << 20;         // from one helper
    size_t most_stuck = 2;                // helpers that outlive SIGKILL by a second: no more are started
  };
  using Read = std::function<void(pid_t, const GiveStack&)>;

  explicit StackReader(Read read = read_rank) : StackReader(std::move(read), Limits()) {}
  StackReader(Read read, Limits limits) : read_(std::move(read)), limits_(limits) {}
  StackReader(const StackReader&) = delete;
  StackReader& operator=(const StackReader&) = delete;
  ~StackReader();

  /// Reads these, one after the other. While another reading is under way, and while too many helpers can't be ended,
  /// nothing happens.
  void begin(std::vector<pid_t> pids, int64_t now_ns);
  [[nodiscard]] bool busy() const { return helper_ > 0; }
  /// Becomes readable when there is something to take; -1 while nothing is under way.
  [[nodiscard]] int descriptor() const { return pipe_.get(); }
  /// What has come since the last call. Never waits. To be called again and again while busy(): keeps the deadlines.
  std::vector<ReadStack> take(int64_t now_ns);
  /// Processes that proved not to be Python since the last call.
  std::vector<pid_t> take_others() { return std::exchange(others_, {}); }

 private:
  void start(int64_t now_ns);
  void end_helper();
  void reap_killed();
  [[nodiscard]] bool too_many_stuck(int64_t now_ns) const;
  bool parse(bool ended, std::vector<ReadStack>& stacks);

  Read read_;
  Limits limits_;
  std::vector<pid_t> pids_;  // not read yet; the first is being read
  int64_t begun_ns_ = 0;
  int64_t received_ns_ = 0;
  pid_t helper_ = 0;
  UniqueFd pipe_;
  std::string text_;  // not parsed yet
  size_t bytes_ = 0;
  bool gave_ = false;  // something of the process that is being read
  struct Killed {
    pid_t pid = 0;
    int64_t at_ns = 0;
  };
  std::vector<Killed> killed_;  // not reaped yet
  std::vector<pid_t> others_;
};

}  // namespace stalltrace::capture
