// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/helper/helper_task.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/handle.h"
#include "base/io/pipe.h"
#include "base/io/poll_until.h"
#include "base/io/write_all.h"
#include "base/memory/worker_memory.h"
#include "base/process/subprocess.h"
#include "base/text.h"
#include "base/untrusted/helper_child.h"
#include "cli/fleet/helper/answer_lines.h"
#include "cli/fleet/helper/outbox.h"

namespace stalltrace::cli {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr int64_t kMostReportBytes = 128 << 20;  // of one run
constexpr int64_t kAliveNs = kNsPerSecond;       // an empty line at least this often
constexpr int64_t kExitNs = kNsPerSecond;        // from the end of the output to that of the process
constexpr std::chrono::seconds kDying{5};

/// A process group of its own, so that what it starts ends with it.
struct Running {
  Subprocess process;
  UniqueFd output;
};

[[noreturn]] void run_task(const HelperWork& work, const HelperTask& task, int out) {
  limit_worker_memory();
  try {
    ::_exit(task.run(out));
  } catch (const std::exception&) {
    (void)write_all(out, line_of(Error{.what = fmt::format("no memory is left for {}", work.it)}));
  }
  ::_exit(1);
}

std::optional<Running> start_task(const HelperWork& work, const HelperTask& task, int server) {
  auto pipe = make_pipe();
  const pid_t parent = ::getpid();
  const pid_t child = pipe ? ::fork() : -1;
  if (child == 0) {
    ::setpgid(0, 0);
    if (!die_with_parent(parent)) {
      ::_exit(1);
    }
    ::close(server);
    pipe->read_end.reset();
    run_task(work, task, pipe->write_end.get());
  }
  if (child < 0) {
    return std::nullopt;
  }
  ::setpgid(child, child);  // whichever of the two comes first
  auto process = Subprocess::adopt(child);
  if (!process) {
    return std::nullopt;
  }
  return Running{.process = *std::move(process), .output = std::move(pipe->read_end)};
}

/// How it ended. Nothing: it hangs in the kernel, and is left to it. To be called before it is reaped, as until then no
/// other process or group has its number.
std::optional<ExitStatus> end_task(Running& running) {
  ::kill(-running.process.pid(), SIGKILL);
  (void)running.process.send_signal(SIGKILL);
  const auto ended = running.process.wait_for(kDying);
  if (!ended || !*ended) {
    running.process.detach();
  }
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // what it had started is this process's now
  }
  return ended ? *ended : std::nullopt;
}

enum class Ended : uint8_t { kByItself, kByTime, kBySize, kByServer, kServerGone };

/// Hands on what the task writes, until it ends, its time is over, or the server wants no more.
Ended hand_on(int output, int64_t limit_ns, int server, FrameReader& orders, Outbox& out) {
  const int64_t end_ns = monotonic_now_ns() + limit_ns;
  int64_t sent_bytes = 0;
  int64_t spoke_ns = monotonic_now_ns();
  std::vector<char> piece(kPieceBytes);
  for (;;) {
    if (monotonic_now_ns() >= end_ns) {
      return Ended::kByTime;
    }
    if (sent_bytes > kMostReportBytes) {
      return Ended::kBySize;
    }
    // While the server has not taken the last piece, there is no next one; its wish to end is read all the same.
    const bool taken = out.empty();
    std::array<pollfd, 2> polled{{{.fd = taken ? output : -1, .events = POLLIN},
                                  {.fd = server, .events = static_cast<short>(taken ? POLLIN : POLLIN | POLLOUT)}}};
    const bool speaks = taken && !out.in_line();  // an empty line; within a line it would break that
    (void)poll_until(polled, speaks ? std::min(end_ns, spoke_ns + kAliveNs) : end_ns);
    if ((polled[1].revents & ~POLLOUT) != 0) {
      std::string order;
      return orders.next(server, -1, order) == FrameReader::Got::kFrame ? Ended::kByServer : Ended::kServerGone;
    }
    if (polled[0].revents != 0) {
      const ssize_t got = ::read(output, piece.data(), piece.size());
      if (got == 0 || (got < 0 && errno != EINTR)) {
        return Ended::kByItself;
      }
      if (got > 0) {
        sent_bytes += got;
        spoke_ns = monotonic_now_ns();
        out.add({piece.data(), static_cast<size_t>(got)});
      }
    } else if (speaks && monotonic_now_ns() - spoke_ns >= kAliveNs) {
      spoke_ns = monotonic_now_ns();
      out.add("\n");
    }
    if (!out.send_some()) {
      return Ended::kServerGone;
    }
  }
}

}  // namespace

bool answer_request(const HelperWork& work, const std::string& request, int server, FrameReader& orders) {
  Outbox out(server);
  const Result<HelperTask> task = work.read(request);
  auto running = task ? start_task(work, *task, server) : std::nullopt;
  if (!running) {
    out.add(task ? Error{.what = fmt::format("no process can be started for {}", work.it),
                         .remedy = "raise the limits of processes and open files"}
                 : task.error());
    out.add_end();
    return out.send_all();
  }
  const Ended ended = hand_on(running->output.get(), task->limit_ns, server, orders, out);
  // Its own end, if it comes: with the output closed it is near.
  const bool ended_itself =
      ended == Ended::kByItself && wait_readable(running->process.end_descriptor(), monotonic_now_ns() + kExitNs);
  const auto status = end_task(*running);  // before anything waits for the server
  if (ended == Ended::kServerGone) {
    return false;
  }
  if (ended == Ended::kByTime) {
    out.add(Error{.what = fmt::format("{} took longer than {}", work.it, format_duration(task->limit_ns)),
                  .remedy = std::string(work.ask_for_less)});
  } else if (ended == Ended::kBySize) {
    out.add(
        Error{.what = fmt::format("the answer of {} is too large", work.it), .remedy = std::string(work.ask_for_less)});
  } else if (ended_itself && status && status->signal) {
    out.add(Error{.what = fmt::format("the process of {} was ended by {}", work.it, format_exit(*status)),
                  .remedy = "has that node memory left?"});
  }
  out.add_end();
  return out.send_all();
}

}  // namespace stalltrace::cli
