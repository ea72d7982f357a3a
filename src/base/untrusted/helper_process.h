// SPDX-License-Identifier: Apache-2.0
// A child process for work that may hang, crash or be subverted: it opens or reads files of untrusted users. It answers
// one message at a time; its parent never waits for it, and kills it when it takes too long. One thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/handle.h"
#include "base/result.h"
#include "base/untrusted/helper_message.h"
#include "base/untrusted/killed_children.h"

namespace stalltrace {

class HelperProcess {
 public:
  /// Runs in the child, once per request. What it opened or was given is closed before it counts as having answered:
  /// that, too, may take the consent of a file system, and is part of the request.
  using Serve = HelperMessage (*)(HelperMessage request);
  enum class Rights {
    kOurs,  // our privileges: to open files that only we may open
    /// No capability, no new privilege, no system calls but those that read open files, and bounded memory. It can
    /// send no descriptor.
    kNone,
  };
  enum class Outcome { kWaiting, kAnswered, kEnded };

  HelperProcess(Serve serve, Rights rights) : serve_(serve), rights_(rights) {}
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;
  ~HelperProcess() { end(); }

  /// Starts it unless it runs. Errors: no process, no socket, or too many killed helpers that are still not dead.
  Status start();
  /// Starts it if needed, and sends the request; to a new one if it has died since its last answer. Then call receive()
  /// until the answer or the end arrives: a helper that is asked before is ended. `work`: what hanging() knows it by.
  Status ask(const HelperMessage& request, const ChildsWork& work = {});
  /// Killed helpers that hang in the kernel, of those with such work.
  [[nodiscard]] size_t hanging(const std::function<bool(const ChildsWork&)>& which);
  /// kAnswered: `answer` has come, and the helper holds nothing of the request any more.
  Outcome receive(HelperMessage& answer);
  /// Asks and waits for the answer, `most_ns` at most. nullopt where that was not enough, or it ended: it is killed.
  std::optional<HelperMessage> ask_and_wait(const HelperMessage& request, int64_t most_ns);
  /// Ends a helper that is asked nothing if it has died, or sends what was not asked for. Else its descriptor would
  /// stay readable.
  void check_idle();
  /// Kills it. One that hangs in the kernel dies when the kernel releases it.
  void end();

  [[nodiscard]] bool is_running() const { return static_cast<bool>(socket_); }
  /// Readable when an answer has arrived or the helper has ended; -1 while it doesn't run.
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  Serve serve_;
  Rights rights_;
  UniqueFd socket_;
  pid_t pid_ = 0;
  ChildsWork work_;          // the latest request's
  bool is_asked_ = false;    // that request is not done
  bool has_answer_ = false;  // but its answer is here
  HelperMessage answer_;
  KilledChildren killed_;
};

}  // namespace stalltrace
