// SPDX-License-Identifier: Apache-2.0
#include "preflight/peers/collectives/helper.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/io/poll_until.h"
#include "base/process/subprocess.h"
#include "base/text.h"

namespace stalltrace::preflight {
namespace {

constexpr size_t kLongestAnswer = 64 << 10;
constexpr int kEndTries = 100;
constexpr std::chrono::milliseconds kBetweenEndTries{10};

bool send_line(int socket, std::string_view line) {
  // The program reads each order before it does anything else: a line has room.
  return ::send(socket, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(line.size());
}

}  // namespace

std::string CollectivesHelper::end_text() const {
  const std::string_view what = "the program that uses the library has ended";
  for (int i = 0; pid_ > 0 && i < kEndTries; ++i) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      const ExitStatus exit{.code = WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt,
                            .signal = WIFSIGNALED(status) ? std::optional(WTERMSIG(status)) : std::nullopt};
      return fmt::format("{}: {}", what, format_exit(exit));
    }
    if (ended < 0 && errno != EINTR) {
      break;
    }
    std::this_thread::sleep_for(kBetweenEndTries);
  }
  return std::string(what);
}

CollectiveAnswer CollectivesHelper::follow(const CollectiveOrder& order, int stop) {
  if (order.bytes > max_bytes_) {
    return {.detail = fmt::format("rank 0 asks for {}, this rank was started with --max-size {}",
                                  format_size(order.bytes), format_size(max_bytes_))};
  }
  if (!socket_) {
    return {.detail = reason_};
  }
  if (!send_line(socket_.get(), line_of(order, library_))) {
    socket_.reset();
    return {.state = CollectiveAnswer::State::kEnded, .detail = end_text()};
  }
  const int64_t end_ns = monotonic_now_ns() + order.limit_ns;
  CollectiveAnswer late{.state = CollectiveAnswer::State::kUnfinished,
                        .detail = fmt::format("did not end within {}", format_duration(order.limit_ns))};
  for (;;) {
    for (size_t end = begun_.find('\n'); end != std::string::npos; end = begun_.find('\n')) {
      const auto answer = answer_of_line(order, std::string_view(begun_).substr(0, end));
      begun_.erase(0, end + 1);
      if (answer) {
        return *answer;
      }
      late.launched = true;
    }
    std::array<pollfd, 2> polled{{{.fd = socket_.get(), .events = POLLIN}, {.fd = stop, .events = POLLIN}}};
    if (!poll_until(polled, end_ns)) {
      socket_.reset();
      return late;
    }
    if (polled[0].revents == 0) {
      socket_.reset();
      late.detail = "did not end before rank 0 stopped it";
      return late;
    }
    std::array<char, 4096> piece{};
    const ssize_t got = ::recv(socket_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got > 0 && begun_.size() < kLongestAnswer) {
      begun_.append(piece.data(), static_cast<size_t>(got));
    } else if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
      socket_.reset();
      return {.state = CollectiveAnswer::State::kEnded, .detail = end_text()};
    }
  }
}

}  // namespace stalltrace::preflight
