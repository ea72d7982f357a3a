// SPDX-License-Identifier: Apache-2.0
// The launcher of a command: it starts the command, passes signals on and returns the exit code, and does nothing else.
// What may hang, crash or run out of memory (tracing, analysis, every file) is done by a worker. Whatever becomes of
// that, the command starts, ends as it would have, and its exit code is returned; one line says what was lost.
//
//     launcher ---- the command (in the launcher's process group, with its terminal)
//        |-------- signal-watch (group_signal_probe.h)
//        '-------- st-tracer of `trace`, or st-evidence of `run` ---- st-tracer
//                                                            '------- st-analysis, while something is explained
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launch/job.h"
#include "launch/supervision/worker.h"

namespace stalltrace::launch {

/// How long a worker is waited for, until it is killed.
struct Patience {
  std::chrono::milliseconds start{60'000};      // until the command may start
  std::chrono::milliseconds store{60'000};      // after the command's end, until the recording is stored
  std::chrono::milliseconds analysis{600'000};  // until it is explained
  std::chrono::milliseconds silence{30'000};    // while the command runs, until a line says so

  /// For tests: all but `silence` in proportion to `time`.
  static Patience of(std::chrono::milliseconds time);
  /// Of who waits for one that itself waits for others that long.
  [[nodiscard]] Patience outer() const;
};

class Supervisor {
 public:
  using Report = std::function<void(const Error&)>;

  /// When a worker is lost.
  enum class Loss { kBeforeTheStart, kWhileTheCommandRuns, kAfterItsEnd, kAfterAllWasStored };
  /// What remains then: half a sentence, printed behind what became of the worker. `environment` as of JobNews::ready.
  using Rest = std::function<std::string(Loss when, const std::vector<std::string>& environment)>;

  /// `what` a person calls the worker: "the tracer". `job` and what the functions refer to outlive this.
  Supervisor(Job& job, std::string what, Rest rest, const Patience& patience, Report report);

  /// Starts the worker, and waits until the command may start. The exit code where the worker refuses that: then the
  /// command is not to be started.
  std::optional<int> prepare(const char* name, const Worker::Work& work);
  /// Starts the command; an error as of Job::start. The worker knows it then.
  Status start(const std::vector<std::string>& command);
  /// Until the command has ended and the worker has finished; the command's exit code.
  Result<int> wait();

 private:
  void watch_job();
  /// Takes what the worker has sent, and reports its end. True: something had come.
  bool look();
  void finish(int code);
  /// True once `done`, or the worker has ended; else it is killed after `limit`, which a line says.
  template <typename Done>
  void wait_for_worker(std::chrono::milliseconds limit, const char* what_is_late, Done done);
  void lose(const std::string& how);

  Job& job_;
  std::string what_;
  Rest rest_;
  Patience patience_;
  Report report_;
  std::optional<Worker> worker_;
  std::vector<std::string> environment_;
  std::optional<ExitStatus> ended_;
  bool ready_ = false;
  bool started_ = false;  // the command
  bool job_ended_ = false;
  bool stored_ = false;
};

/// The same from the worker's side: what it learns of the command.
class JobNews {
 public:
  explicit JobNews(WorkerSide& launcher) : launcher_(launcher) {}

  /// All is prepared: the command may start, with these lines in its environment.
  void ready(const std::vector<std::string>& environment);
  /// False: it was not started.
  bool wait_for_start();
  /// Takes what has come, and says that this worker gets on. At least every few seconds.
  void look();
  /// The command got a signal that asks for its end: a SIGKILL may follow.
  [[nodiscard]] bool asked_to_end() const { return asked_to_end_; }
  /// The exit code of the command, once it has ended.
  [[nodiscard]] std::optional<int> code() const { return code_; }
  /// Nothing is lost any more when this worker is killed.
  void stored() { send(MessageKind::kStored, {}); }
  /// Readable (poll) when look() finds something.
  [[nodiscard]] int descriptor() const { return launcher_.channel.descriptor(); }
  /// Readable (poll) once the command has ended.
  [[nodiscard]] int end_descriptor() const { return launcher_.stop.get(); }

 private:
  void take(const Message& message);
  /// What must not be lost, even if the launcher was stopped for a while.
  void send(MessageKind kind, std::string_view bytes);

  WorkerSide& launcher_;
  std::optional<bool> started_;
  bool asked_to_end_ = false;
  std::optional<int> code_;
};

}  // namespace stalltrace::launch
