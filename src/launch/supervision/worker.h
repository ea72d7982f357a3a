// SPDX-License-Identifier: Apache-2.0
// A child of this program that does a part of its work: it is forked, not started anew, and may hang, crash or be
// killed without harm to its parent. The kernel ends it with its parent, and takes it first where memory runs out.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/handle.h"
#include "base/process/subprocess.h"
#include "base/result.h"
#include "launch/supervision/channel.h"

namespace stalltrace::launch {

/// What a worker has of its parent.
struct WorkerSide {
  Channel channel;
  UniqueFd stop;  // readable (poll) when it is to finish
};

/// One thread: the kernel ends the worker with the thread that started it.
class Worker {
 public:
  /// In the worker. The result is its exit code: less than kFailedCode.
  using Work = std::function<int(WorkerSide& parent)>;
  /// Of a worker that ran out of memory, or into an unexpected error; it reported that itself.
  static constexpr int kFailedCode = 70;

  /// Forks: for a time when no other thread holds a lock that the work takes. `name` is the process's, at most 15
  /// characters. Signals that are held here are held there, and its memory is limited (base/memory/worker_memory.h).
  static Result<Worker> start(const char* name, const Work& work);

  Worker(Worker&& other) noexcept = default;
  Worker& operator=(Worker&& other) = delete;
  /// Kills it.
  ~Worker();

  Channel& channel() { return channel_; }
  [[nodiscard]] const Channel& channel() const { return channel_; }
  /// Readable (poll) once it has ended.
  [[nodiscard]] int end_descriptor() const { return process_.end_descriptor(); }
  [[nodiscard]] pid_t pid() const { return process_.pid(); }
  void ask_to_finish();
  /// None: it still runs after that time.
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds limit);
  /// At once. One that hangs in the kernel is left to it after a second.
  void kill();

 private:
  Worker(Subprocess process, Channel channel, UniqueFd stop)
      : process_(std::move(process)), channel_(std::move(channel)), stop_(std::move(stop)) {}

  Subprocess process_;
  Channel channel_;
  UniqueFd stop_;
};

/// How a worker's end reads where it was none of its own making: "was ended by signal 9 (Killed)". None: it ended by
/// itself, and reported the reason.
std::optional<std::string> unexpected_end(const ExitStatus& status);

}  // namespace stalltrace::launch
