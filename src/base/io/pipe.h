// SPDX-License-Identifier: Apache-2.0
// Pipes whose ends are closed by their owner, and on exec.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

/// Both ends are closed on exec. A child that is forked has both: it closes the one that is not its own, or the reader
/// never sees the end.
inline Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail_errno("make a pipe", errno);
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace stalltrace
