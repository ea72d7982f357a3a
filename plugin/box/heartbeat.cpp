// SPDX-License-Identifier: Apache-2.0
#include "plugin/box/heartbeat.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace stalltrace::plugin {
namespace {

constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr size_t kStackBytes = 256 << 10;

#ifdef __SANITIZE_THREAD__
constexpr bool kThreadsAfterFork = false;  // ThreadSanitizer does not support them
#else
constexpr bool kThreadsAfterFork = true;
#endif

struct Heartbeat {
  pthread_t thread{};
  uint32_t stop = 0;                // a futex: 1 when the thread should stop
  st_box_header* header = nullptr;  // valid while the thread lives
  uint64_t started_ns = 0;
  pid_t owner = 0;
  bool forked = false;
};
constinit Heartbeat heartbeat;

/// This thread's total wait for a CPU; ~0 where the kernel keeps no account.
uint64_t runnable_ns(int schedstat) {
  char text[96];
  const ssize_t got = schedstat < 0 ? -1 : pread(schedstat, text, sizeof(text) - 1, 0);
  if (got <= 0) {
    return UINT64_MAX;
  }
  text[got] = '\0';
  const char* second = strchr(text, ' ');
  return second == nullptr ? UINT64_MAX : strtoull(second, nullptr, 10);
}

/// True when the thread should stop. A futex, since no semaphore of glibc before 2.30 has a deadline by this clock.
bool sleep_until(uint64_t due_ns) {
  const timespec due{static_cast<time_t>(due_ns / kNsPerSecond), static_cast<long>(due_ns % kNsPerSecond)};
  while (load(heartbeat.stop, std::memory_order_acquire) == 0) {
    const long woken = syscall(SYS_futex, &heartbeat.stop, FUTEX_WAIT_BITSET_PRIVATE, 0, &due, nullptr,
                               FUTEX_BITSET_MATCH_ANY);  // the deadline is by CLOCK_MONOTONIC
    if (woken != 0 && errno != EINTR && errno != EAGAIN) {
      return false;
    }
  }
  return true;
}

void report_pause(st_box_header& header, uint64_t from_ns, uint64_t to_ns, uint64_t waited_ns) {
  const uint64_t number = load(header.pauses_filled);
  st_box_pause& pause = header.pauses[number % ST_BOX_PAUSES];
  store<uint64_t>(pause.from_ns, 0, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_release);
  store(pause.to_ns, to_ns);
  store(pause.runnable_ns, waited_ns);
  store(pause.from_ns, from_ns, std::memory_order_release);
  store(header.pauses_filled, number + 1, std::memory_order_release);
}

/// Records a heartbeat. If writing it took long, the file is on a slow disk: that is not counted as a pause.
uint64_t report_beat(st_box_header& header, uint64_t now) {
  store(header.heartbeat_ns, now, std::memory_order_release);
  const uint64_t reported_ns = now_ns();
  return reported_ns - now > ST_BOX_PAUSE_NS ? reported_ns : now;
}

void* keep_beating(void*) {
  st_box_header& header = *heartbeat.header;
  prctl(PR_SET_NAME, "stalltrace");
  const int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  uint64_t beat_ns = heartbeat.started_ns;
  for (bool stopping = false; !stopping;) {
    const uint64_t waited_before_ns = runnable_ns(schedstat);
    const uint64_t due_ns = beat_ns + ST_BOX_BEAT_NS;
    stopping = sleep_until(due_ns);
    const uint64_t woken_ns = now_ns();
    if (woken_ns > due_ns + ST_BOX_PAUSE_NS) {
      const uint64_t waited_ns = runnable_ns(schedstat);
      const bool known = waited_before_ns != UINT64_MAX && waited_ns != UINT64_MAX;
      report_pause(header, due_ns, woken_ns, known ? waited_ns - waited_before_ns : UINT64_MAX);
    }
    beat_ns = report_beat(header, woken_ns);
  }
  if (schedstat >= 0) {
    close(schedstat);
  }
  return nullptr;
}

/// Starts the thread with all signals blocked: signals belong to the job.
bool make_thread() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool made = pthread_create(&heartbeat.thread, &attributes, keep_beating, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return made;
}

}  // namespace

void start_heartbeat(Box& box) {
  if (heartbeat.header != nullptr || (heartbeat.forked && !kThreadsAfterFork)) {
    return;
  }
  heartbeat.header = box.header;
  heartbeat.owner = getpid();
  store<uint32_t>(heartbeat.stop, 0);
  heartbeat.started_ns = now_ns();
  // A reader that sees a running heartbeat must see a recent one.
  raise_to(box.header->heartbeat_ns, heartbeat.started_ns);
  store<uint64_t>(box.header->heartbeat_ended_ns, 0, std::memory_order_release);
  if (!make_thread()) {
    store(box.header->heartbeat_ended_ns, now_ns(), std::memory_order_release);
    heartbeat.header = nullptr;
  }
}

void stop_heartbeat() {
  if (heartbeat.header != nullptr &&
      heartbeat.owner == getpid()) {  // a clone without fork handlers has no thread either
    store<uint32_t>(heartbeat.stop, 1, std::memory_order_release);
    syscall(SYS_futex, &heartbeat.stop, FUTEX_WAKE_PRIVATE, 1);
    pthread_join(heartbeat.thread, nullptr);
    store(heartbeat.header->heartbeat_ended_ns, now_ns(), std::memory_order_release);
  }
  heartbeat.header = nullptr;
}

void forget_heartbeat() {
  heartbeat.header = nullptr;
  heartbeat.forked = true;
}

}  // namespace stalltrace::plugin
