// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/helper/helper_main.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <string_view>

#include "base/memory/worker_memory.h"
#include "base/process/descriptors.h"
#include "base/rights/capabilities.h"
#include "base/untrusted/helper_child.h"
#include "base/untrusted/sandbox.h"
#include "cli/fleet/helper/frames.h"
#include "cli/fleet/helper/helper_task.h"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace stalltrace::cli {
namespace {

constexpr int kServer = 3;  // the socket's number here
constexpr std::string_view kToken = "STALLTRACE_TOKEN=";

/// Its memory has the environment of the server, and the token may be there.
void forget_token() {
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    if (std::string_view(*at).starts_with(kToken)) {
      ::explicit_bzero(*at + kToken.size(), std::strlen(*at) - kToken.size());
    }
  }
}

/// As root it becomes the user nobody; it has no capability from here on.
bool give_up_rights(pid_t parent) { return (::geteuid() != 0 || become_nobody(parent)) && keep_capabilities(0); }

}  // namespace

void run_helper(const HelperWork& work, int socket, pid_t parent) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);  // Ctrl-C ends the server, which closes the socket
  ::prctl(PR_SET_NAME, work.process_name);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a task leaves is reaped here, not by the server
  if (::dup2(socket, kServer) < 0) {
    ::_exit(1);
  }
  close_all_but(kServer);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {0, 1, 2}) {
    ::dup2(null, standard);
  }
  forget_token();
  go_first_when_memory_runs_out();  // with another user's id it may no longer
  const char ready = '\n';
  const bool has_its_rights = (work.keeps_rights || give_up_rights(parent)) && die_with_parent(parent);
  if (!has_its_rights || ::send(kServer, &ready, sizeof ready, MSG_NOSIGNAL) != sizeof ready) {
    ::_exit(1);
  }
  FrameReader orders;
  std::string request;
  while (orders.next(kServer, -1, request) == FrameReader::Got::kFrame) {
    // An empty one came after the end of the task that it was for.
    if (!request.empty() && !answer_request(work, request, kServer, orders)) {
      break;
    }
  }
  ::_exit(0);
}

}  // namespace stalltrace::cli
