// SPDX-License-Identifier: Apache-2.0
#include "base/files/disposable_folder.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/io/pipe.h"

namespace stalltrace {
namespace {

[[noreturn]] void remove_at_end(const OwnFolder& folder, int in_use) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    std::signal(number, SIG_IGN);
  }
  // Readers of our output do not wait for this process.
  const int devices = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(devices, standard);
  }
  char byte = 0;
  while (::read(in_use, &byte, 1) < 0 && errno == EINTR) {
  }
  remove_with_contents(folder);
  ::_exit(0);
}

}  // namespace

Result<DisposableFolder> DisposableFolder::make(const std::string& prefix) {
  ST_ASSIGN(OwnFolder folder, OwnFolder::make_temporary(prefix, 0700));
  ST_ASSIGN(Pipe in_use, make_pipe());
  const pid_t remover = ::fork();
  if (remover < 0) {
    folder.remove_itself();
    return fail_errno("start a process", errno);
  }
  if (remover == 0) {
    in_use.write_end.reset();
    remove_at_end(folder, in_use.read_end.get());
  }
  return DisposableFolder(std::move(folder), std::move(in_use.write_end), remover);
}

DisposableFolder::~DisposableFolder() {
  if (in_use_) {
    in_use_.reset();
    while (::waitpid(remover_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

}  // namespace stalltrace
