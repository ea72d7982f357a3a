// SPDX-License-Identifier: Apache-2.0
// A child of this program that does what may hang, crash or be subverted: it opens or reads what a stranger chose. It
// answers one message at a time; its parent never waits for it, and ends it when it takes too long. One thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

struct HelperMessage {
  std::string bytes;  // at most 64 KiB
  UniqueFd fd;        // optional
};

class HelperProcess {
 public:
  /// Runs in the child, once a request.
  using Serve = HelperMessage (*)(HelperMessage request);
  enum class Rights {
    kOurs,  // to open what only we may
    kNone,  // no capability, no new privilege, no system call but to read open files, and bounded memory
  };
  enum class Outcome { kWaiting, kAnswered, kEnded };

  HelperProcess(Serve serve, Rights rights) : serve_(serve), rights_(rights) {}
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;
  ~HelperProcess();

  /// Starts it where it doesn't run. Errors: no process, no socket; or too many that were ended haven't died yet.
  Status start();
  /// Starts it if need be, and asks. After that receive() until it is answered or ended.
  Status ask(const HelperMessage& request);
  Outcome receive(HelperMessage& answer);
  /// Ends it at once. One that hangs in the kernel dies when the kernel lets it.
  void end();

  [[nodiscard]] bool is_running() const { return static_cast<bool>(socket_); }
  /// Readable when there is an answer, or it has ended; -1 when it doesn't run.
  [[nodiscard]] int descriptor() const { return socket_.get(); }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  void reap();

  Serve serve_;
  Rights rights_;
  UniqueFd socket_;
  pid_t pid_ = 0;
  std::vector<pid_t> ended_;  // not yet reaped
};

}  // namespace stalltrace
