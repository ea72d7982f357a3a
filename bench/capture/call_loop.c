// SPDX-License-Identifier: Apache-2.0
// Calls ncclAllReduce without a pause and prints the cost of a call.
//
//   bench_call_loop SECONDS      prints {"calls":N,"wall_ns":X,"cpu_ns":Y}, both per call
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, int datatype, int op, void* comm, void* stream);

static double seconds_now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 1.0;
  const int batch = 100;
  static char buffer[64];
  static char comm;
  static char stream;
  long calls = 0;
  const double cpu_start = seconds_now(CLOCK_THREAD_CPUTIME_ID);
  const double start = seconds_now(CLOCK_MONOTONIC);
  double end = start;
  while (end - start < seconds) {
    for (int i = 0; i < batch; i++) {
      if (ncclAllReduce(buffer, buffer, 16, 7, 0, &comm, &stream) != 0) {
        return 1;
      }
    }
    calls += batch;
    end = seconds_now(CLOCK_MONOTONIC);
  }
  const double cpu_seconds = seconds_now(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
  printf("{\"calls\":%ld,\"wall_ns\":%.1f,\"cpu_ns\":%.1f}\n", calls, (end - start) * 1e9 / (double)calls,
         cpu_seconds * 1e9 / (double)calls);
  return 0;
}
