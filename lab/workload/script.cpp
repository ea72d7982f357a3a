// SPDX-License-Identifier: Apache-2.0
#include "script.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

namespace lab {
namespace {

constexpr size_t kBlockBytes = 1U << 20U;
constexpr size_t kBlockAlignment = 4096;
constexpr int kInputTurnMs = 500;

double clock_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// A pipe without a writer.
void wait_on_pipe(int most_ms) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) == 0) {
    pollfd entry{.fd = ends[0], .events = POLLIN, .revents = 0};
    poll(&entry, 1, most_ms);
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

}  // namespace

std::string bug(std::string_view name) {
  std::string kind;
  if (const char* prefix = std::getenv("LAB_BUGS"); prefix != nullptr) {
    std::ifstream(prefix + std::string(name)) >> kind;
  }
  return kind;
}

double slow_ms() {
  double value = 0;
  if (const char* path = std::getenv("LAB_SLOW_FILE"); path != nullptr) {
    std::ifstream(path) >> value;
  }
  return value > 0 ? value : 0;
}

void compute(double cpu_ms) {
  const double end = clock_seconds(CLOCK_THREAD_CPUTIME_ID) + cpu_ms * 1e-3;
  volatile double value = 1.0;
  while (clock_seconds(CLOCK_THREAD_CPUTIME_ID) < end) {
    for (int i = 0; i < 500; ++i) {
      value = std::sqrt(value * 1.0001 + 0.5);
    }
  }
}

void wait_for_input() { wait_on_pipe(kInputTurnMs); }

void wait_for_slow_input() {
  if (const int milliseconds = std::atoi(bug("input").c_str()); milliseconds > 0) {
    wait_on_pipe(milliseconds);
  }
}

void write_to_disk(std::string_view name, long megabytes) {
  const char* prefix = std::getenv("LAB_BUGS");
  const std::string path = (prefix == nullptr ? "./" : prefix) + std::string(name) + ".written";
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_DIRECT, 0600);
  void* block = nullptr;
  if (file >= 0 && posix_memalign(&block, kBlockAlignment, kBlockBytes) == 0) {
    std::memset(block, 1, kBlockBytes);
    for (long written = 0; written<megabytes&& ::write(file, block, kBlockBytes)> 0; ++written) {
      // one block after the other
    }
    fdatasync(file);
  }
  std::free(block);
  if (file >= 0) {
    ::close(file);
  }
}

void wait_for_disk() {
  if (const long megabytes = std::atol(bug("disk").c_str()); megabytes > 0) {
    write_to_disk("disk", megabytes);
  }
}

double seconds_now() { return clock_seconds(CLOCK_MONOTONIC); }

long long utc_now_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<long long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace lab
