// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/io/pipe.h"
#include "base/io/poll_until.h"
#include "base/io/write_all.h"

namespace stalltrace {
namespace {

constexpr int64_t kSoonNs = 50 * kNsPerMs;
constexpr int64_t kAtLastNs = 10 * kNsPerSecond;

Pipe new_pipe() {
  auto pipe = make_pipe();
  EXPECT_TRUE(pipe.has_value());
  return std::move(*pipe);
}

/// Signals to this thread, again and again, that interrupt what it waits in.
class Interruptions {
 public:
  Interruptions() {
    struct sigaction action {};
    action.sa_handler = [](int) {};  // without SA_RESTART
    ::sigaction(SIGUSR1, &action, &before_);
    thread_ = std::jthread([target = ::pthread_self()](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        ::pthread_kill(target, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  ~Interruptions() {
    thread_ = {};
    ::sigaction(SIGUSR1, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
  std::jthread thread_;
};

TEST(Pipe, ItsEndsAreClosedOnExec) {
  const Pipe pipe = new_pipe();
  for (const int end : {pipe.read_end.get(), pipe.write_end.get()}) {
    EXPECT_EQ(::fcntl(end, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
}

TEST(PollUntil, WaitsForTheTimeAndNoSignalEndsIt) {
  const Pipe pipe = new_pipe();
  const Interruptions interruptions;
  const int64_t begin_ns = monotonic_now_ns();
  EXPECT_FALSE(wait_readable(pipe.read_end.get(), begin_ns + kSoonNs));
  EXPECT_GE(monotonic_now_ns() - begin_ns, kSoonNs);
}

TEST(PollUntil, EndsWithTheFirstThatIsReady) {
  const Pipe silent = new_pipe();
  Pipe ready = new_pipe();
  std::vector<pollfd> fds{{.fd = silent.read_end.get(), .events = POLLIN},
                          {.fd = ready.read_end.get(), .events = POLLIN}};
  ASSERT_TRUE(write_all(ready.write_end.get(), "x"));
  EXPECT_TRUE(poll_until(fds, kNoEnd));
  EXPECT_EQ(fds[0].revents, 0);
  EXPECT_EQ(fds[1].revents, POLLIN);
  EXPECT_TRUE(poll_until(fds, std::chrono::steady_clock::now() + std::chrono::nanoseconds(kAtLastNs)));
}

TEST(PollUntil, ATimeThatIsOverLooksOnce) {
  Pipe pipe = new_pipe();
  EXPECT_FALSE(wait_readable(pipe.read_end.get(), 0));
  pipe.write_end.reset();
  EXPECT_TRUE(wait_readable(pipe.read_end.get(), 0)) << "an end is something to read";
}

TEST(WriteAll, OfWhatTakesPartsAlone) {
  Pipe pipe = new_pipe();
  const std::string text(3 << 20, 'x');  // the pipe takes some 64 KiB
  std::string got;
  std::jthread reader([&] {
    std::array<char, 4096> part{};
    for (ssize_t size = 0; (size = ::read(pipe.read_end.get(), part.data(), part.size())) > 0;) {
      got.append(part.data(), static_cast<size_t>(size));
    }
  });
  {
    const Interruptions interruptions;
    EXPECT_TRUE(write_all(pipe.write_end.get(), text));
  }
  pipe.write_end.reset();
  reader.join();
  EXPECT_EQ(got.size(), text.size());
}

TEST(WriteAll, AFailureHasItsReason) {
  Pipe pipe = new_pipe();
  EXPECT_TRUE(write_all(-1, "")) << "nothing is written";
  EXPECT_FALSE(write_all(-1, "x"));
  EXPECT_EQ(errno, EBADF);
  ASSERT_EQ(::fcntl(pipe.write_end.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_FALSE(write_all(pipe.write_end.get(), std::string(3 << 20, 'x')));
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace stalltrace
