// SPDX-License-Identifier: Apache-2.0
#include "base/process/command.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/io/pipe.h"
#include "base/io/poll_until.h"
#include "base/rights/secure_mode.h"
#include "base/text.h"

namespace stalltrace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kCaptureLimitBytes = 16U << 20;

/// Appends the available bytes; false at the end of the stream.
bool drain(int fd, std::string& into) {
  char buffer[16384];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got < 0) {
    return errno == EINTR || errno == EAGAIN;
  }
  into.append(buffer,
              std::min(static_cast<size_t>(got), kCaptureLimitBytes - std::min(into.size(), kCaptureLimitBytes)));
  return got > 0;
}

/// Reads both streams to their ends; false if the deadline passed first.
bool drain_both(UniqueFd& out, UniqueFd& err, CommandOutput& output, Clock::time_point deadline) {
  while (out || err) {
    std::vector<pollfd> fds = {{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};  // poll skips -1
    if (!poll_until(fds, deadline)) {
      return false;
    }
    if (fds[0].revents != 0 && !drain(out.get(), output.out)) {
      out.reset();
    }
    if (fds[1].revents != 0 && !drain(err.get(), output.err)) {
      err.reset();
    }
  }
  return true;
}

}  // namespace

Result<CommandOutput> run_and_capture(SpawnOptions options, milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  ST_ASSIGN(Pipe out, make_pipe());
  ST_ASSIGN(Pipe err, make_pipe());
  options.stdout_path.clear();
  options.stderr_path.clear();
  options.inherited_fds.emplace_back(out.write_end.get(), STDOUT_FILENO);
  options.inherited_fds.emplace_back(err.write_end.get(), STDERR_FILENO);
  ST_ASSIGN(Subprocess child, Subprocess::spawn(options));
  out.write_end.reset();
  err.write_end.reset();
  CommandOutput output;
  std::optional<ExitStatus> ended;
  if (drain_both(out.read_end, err.read_end, output, deadline)) {
    ST_ASSIGN(ended, child.wait_for(std::chrono::ceil<milliseconds>(deadline - Clock::now())));
  }
  if (!ended) {
    return fail(format_command(options.argv) + ": still running after " +
                    format_duration(std::chrono::nanoseconds(limit).count()),
                {}, ErrorKind::kInterrupted);
  }
  output.status = *ended;
  return output;
}

Result<std::string> find_program(std::string_view name) {
  if (name.find('/') != std::string_view::npos) {
    return std::string(name);
  }
  const char* path = trusted_variable("PATH");
  const std::string folders = std::string(path != nullptr ? path : "/usr/bin:/bin") + ":/usr/sbin:/sbin";
  for (const std::string_view folder : split(folders, ':')) {
    std::string candidate = std::string(folder.empty() ? "." : folder) + "/" + std::string(name);
    if (::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return fail(std::string(name) + ": no such program in PATH", "install it, or correct PATH", ErrorKind::kNotFound);
}

std::string format_command(const std::vector<std::string>& argv) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  std::string line;
  for (const std::string& argument : argv) {
    line += line.empty() ? "" : " ";
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) {
      line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    line += '\'';
  }
  return line;
}

}  // namespace stalltrace
