// SPDX-License-Identifier: Apache-2.0
// The program that `stalltrace preflight --collectives` starts for each rank: makes collectives through the job's own
// library, which stalltrace itself, being static, can't load. It follows orders (orders.h) that come at descriptor 3,
// and ends with it. It writes nothing else: what the libraries print goes where its standard output leads.
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "plugin/collectives/orders.h"

namespace {

constexpr int kParent = 3;

}  // namespace

int main() {
  static char line[4096];
  ::prctl(PR_SET_NAME, "st-collectives");
  ::prctl(PR_SET_TIMERSLACK,
          1UL);  // else each pause of the wait for a stream takes 50 us more
  ::signal(SIGPIPE, SIG_IGN);
  // NCCL prints to standard output, and this process ends at once or is killed: each line goes out when it is complete.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  // The job may have it otherwise: a communicator that returns before it is made is no use here.
  ::setenv("NCCL_COMM_BLOCKING", "1", 1);
  stalltrace::collectives::Orders orders(kParent);
  size_t size = 0;
  for (;;) {
    char* end = static_cast<char*>(std::memchr(line, '\n', size));
    if (end != nullptr) {
      *end = '\0';
      const size_t used = static_cast<size_t>(end + 1 - line);
      orders.follow(line);
      size -= used;
      std::memmove(line, line + used, size);
      continue;
    }
    const ssize_t got = size < sizeof line ? ::read(kParent, line + size, sizeof line - size) : 0;
    if (got > 0) {
      size += static_cast<size_t>(got);
    } else if (got == 0 || errno != EINTR) {
      ::_exit(0);  // at once: what a library does at its end may take long, and the parent does not wait for it
    }
  }
}
