// SPDX-License-Identifier: Apache-2.0
// Child processes: started from an argument vector (never a shell), awaited with a time limit, never left
// behind. A Subprocess owns its child: destruction kills and reaps it, unless it was detached. Any thread
// may use one, one at a time; `parent_death_signal` follows the *thread* that called spawn.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process/end_watch.h"
#include "base/result.h"

namespace stalltrace {

/// The signal state that exec passes on: the ignored signals (nohup makes a job ignore SIGHUP) and the mask.
struct SignalState {
  sigset_t ignored{};
  sigset_t mask{};

  /// The state of this process, and the calling thread's mask.
  static SignalState current();
};

/// The command to start and its environment. The child starts with default signal handlers, an empty signal mask and no
/// descriptors but 0, 1, 2, `inherited_fds` and `kept_fds`. As with execvp, the shell runs a file without a known
/// format.
struct SpawnOptions {
  /// argv[0] is looked up by find_program unless it holds a slash.
  std::vector<std::string> argv;
  /// "KEY=value" lines that replace or join this process's environment.
  std::vector<std::string> environment;
  std::string working_directory;  // empty: inherited
  std::string netns_path;         // a namespace file such as /run/netns/NAME to enter; empty: stay
  std::vector<int> cpus;          // may run on these only; empty: inherited
  int nice = 0;                   // 0: inherited
  std::string stdin_path;         // empty: inherited
  std::string stdout_path;        // truncated and written; empty: inherited
  std::string stderr_path;        // may equal stdout_path, then both share one file description; empty: inherited
  /// (descriptor here, number in the child), applied after the files above.
  std::vector<std::pair<int, int>> inherited_fds;
  std::vector<int> kept_fds;           // open in the child under the same number
  std::optional<SignalState> signals;  // instead of default handlers and an empty mask
  bool own_process_group = false;      // out of reach of the terminal's Ctrl-C
  int parent_death_signal = 0;         // sent to the child when this thread ends for any reason; 0: none
};

/// A process's exit status: one of the two is set.
struct ExitStatus {
  std::optional<int> code;
  std::optional<int> signal;

  [[nodiscard]] bool success() const { return code == 0; }
  /// The shell's convention: the code, or 128 + signal.
  [[nodiscard]] int shell_code() const { return code ? *code : 128 + signal.value_or(0); }
};
/// "exit code 1", "signal 9 (Killed)"
std::string format_exit(const ExitStatus& status);

class Subprocess {
 public:
  /// Starts the program. A failure up to and including exec is this call's error.
  static Result<Subprocess> spawn(const SpawnOptions& options);
  /// Takes over a child that the caller has forked. On an error it is killed.
  static Result<Subprocess> adopt(pid_t child);

  Subprocess() = default;
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) noexcept;
  ~Subprocess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Readable (poll) once the process has ended; -1 after it was reaped or detached.
  [[nodiscard]] int end_descriptor() const { return end_.descriptor(); }
  /// The exit status, once try_wait or wait_for has seen the end.
  [[nodiscard]] const std::optional<ExitStatus>& status() const { return status_; }
  [[nodiscard]] bool running() const { return pid_ > 0 && !status_; }

  /// Reaps the process if it has ended; nullopt while it runs.
  Result<std::optional<ExitStatus>> try_wait();
  /// Waits at most `limit`; nullopt if it still runs then.
  Result<std::optional<ExitStatus>> wait_for(std::chrono::milliseconds limit);
  /// Sends a signal; does nothing once the process was reaped.
  Status send_signal(int signal_number);
  /// Sends `polite_signal`, waits up to `grace`, then sends SIGKILL; returns the exit status.
  Result<ExitStatus> terminate(int polite_signal, std::chrono::milliseconds grace);
  /// Releases the process: it outlives this object, and the caller (or init) reaps it.
  pid_t detach();

 private:
  explicit Subprocess(pid_t pid) : pid_(pid) {}

  pid_t pid_ = -1;
  EndWatch end_;
  std::optional<ExitStatus> status_;
};

}  // namespace stalltrace
