// SPDX-License-Identifier: Apache-2.0
// stress-cpu THREADS PERCENT: each thread uses the CPU for PERCENT of every 100 ms, until the process is killed. It
// represents any other program on a node.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kPeriodNs = 100 * 1000 * 1000 };

static int64_t now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void* compete(void* argument) {
  const int64_t wanted_ns = (int64_t)kPeriodNs * *(const int*)argument / 100;
  for (;;) {
    const int64_t period_start = now_ns(CLOCK_MONOTONIC);
    const int64_t used_start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) - used_start < wanted_ns) {
      for (volatile int i = 0; i < 10000; ++i) {
      }
    }
    const int64_t rest_ns = period_start + kPeriodNs - now_ns(CLOCK_MONOTONIC);
    if (rest_ns > 0) {
      const struct timespec rest = {0, (long)rest_ns};
      nanosleep(&rest, NULL);
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  const int threads = argc == 3 ? atoi(argv[1]) : 0;
  int percent = argc == 3 ? atoi(argv[2]) : 0;
  if (threads < 1 || threads > 1024 || percent < 1 || percent > 100) {
    fprintf(stderr, "usage: stress-cpu THREADS PERCENT\n");
    return 2;
  }
  for (int i = 1; i < threads; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, compete, &percent) != 0) {
      fprintf(stderr, "stress-cpu: no more threads\n");
      return 1;
    }
  }
  compete(&percent);
}
