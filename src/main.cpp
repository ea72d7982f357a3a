// SPDX-License-Identifier: Apache-2.0
// The stalltrace program: hands the command line to cli/.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/rights/secure_mode.h"
#include "cli/framework/dispatch.h"
#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"

namespace {

void do_nothing(int /*number*/) {}

}  // namespace

int main(int argc, char** argv) {
  // A reader that goes away shows as a failed write (Console), so that a trace can still end cleanly. By a handler:
  // exec would hand on that the signal is ignored, and a job is to begin with what we began with.
  // A file that reaches RLIMIT_FSIZE likewise: the write fails, as on a full disk.
  for (const int number : {SIGPIPE, SIGXFSZ}) {
    if (std::signal(number, do_nothing) == SIG_IGN) {
      std::signal(number, SIG_IGN);
    }
  }
  stalltrace::cli::Console console(stdout, stderr);
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const auto subcommands = stalltrace::cli::all_subcommands();
    if (const std::string line = stalltrace::secure_mode_line(stalltrace::in_secure_mode(), environ); !line.empty()) {
      console.note(line);
    }
    return stalltrace::cli::dispatch(words, subcommands, console);
  } catch (const std::bad_alloc&) {
    std::fputs("stalltrace: out of memory; give it less at once (fewer recordings, --from and --to)\n", stderr);
  } catch (const std::exception& error) {
    console.error({.what = std::string("unexpected: ") + error.what(), .remedy = "report it with the command"});
  }
  return stalltrace::cli::kExitFailed;
}
