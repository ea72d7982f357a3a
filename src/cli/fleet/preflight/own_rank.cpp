// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/preflight/own_rank.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/io/pipe.h"
#include "base/io/write_all.h"
#include "base/text.h"
#include "base/untrusted/helper_child.h"
#include "cli/framework/exit_code.h"

namespace stalltrace::cli {
namespace {

constexpr char kRemedyFollows = '\0';
constexpr size_t kMostText = 2000;
// The pipe takes it at once and whole: the child never waits for its reader, and killed it leaves all of it or nothing.
static_assert(2 * (kMostText + 3) + 1 <= PIPE_BUF);  // 3: the dots of a text that was cut

std::string to_bytes(const Error& error) {
  return cut_text(error.what, kMostText) + kRemedyFollows + cut_text(error.remedy, kMostText);
}

Error from_bytes(std::string_view bytes) {
  const size_t end = bytes.find(kRemedyFollows);
  return {.what = std::string(bytes.substr(0, end)),
          .remedy = std::string(end == std::string_view::npos ? "" : bytes.substr(end + 1))};
}

[[noreturn]] void run_rank(const std::function<Result<bool>()>& take_part, int report) {
  try {
    const auto failed = take_part();
    if (failed) {
      ::_exit(kExitDone);
    }
    (void)write_all(report, to_bytes(failed.error()));
  } catch (const std::exception&) {
    (void)write_all(report, "no memory is left for rank 0's own process");
  }
  ::_exit(kExitFailed);
}

}  // namespace

Result<OwnRank> OwnRank::start(const std::function<Result<bool>()>& take_part) {
  ST_ASSIGN(Pipe pipe, make_pipe());
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return fail_errno("start rank 0's process", errno);
  }
  if (child == 0) {
    pipe.read_end.reset();
    if (!die_with_parent(parent)) {
      ::_exit(kExitFailed);
    }
    run_rank(take_part, pipe.write_end.get());
  }
  (void)::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK);
  return OwnRank(child, std::move(pipe.read_end));
}

std::optional<Error> OwnRank::failure() {
  std::array<char, PIPE_BUF> bytes{};
  const ssize_t got = failure_ ? ::read(failure_.get(), bytes.data(), bytes.size()) : 0;
  if (got <= 0) {
    return std::nullopt;
  }
  failure_.reset();
  return from_bytes({bytes.data(), static_cast<size_t>(got)});
}

std::optional<Error> OwnRank::wait() {
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
  return failure();
}

}  // namespace stalltrace::cli
