/* SPDX-License-Identifier: Apache-2.0 */
/* A job controlled by commands: job LIBRARY; then one command per line on standard input, one answer per line. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "nccl.h"

static const struct standin_api* api;
static void* comm;
static int listener = -1;
static int connection = -1;

static ncclUniqueId known_id(void) {
  ncclUniqueId id;
  for (int i = 0; i < 128; i++) {
    id.internal[i] = (char)(i + 1);
  }
  return id;
}

#define BUFFERS (const void*)0x5e4d, (void*)0x4ec7

static int all_calls(void) {
  int failed = api->all_reduce(BUFFERS, 101, 7, 0, comm, (void*)0x51);
  failed |= api->reduce_scatter(BUFFERS, 102, 7, 2, comm, (void*)0x52);
  failed |= api->reduce(BUFFERS, 103, 8, 3, 5, comm, (void*)0x53);
  failed |= api->all_gather(BUFFERS, 104, 1, comm, (void*)0x54);
  failed |= api->broadcast(BUFFERS, 105, 7, 2, comm, (void*)0x55);
  failed |= api->bcast((void*)0x5e4d, 106, 7, 4, comm, (void*)0x56);
  failed |= api->all_to_all(BUFFERS, 107, 7, comm, (void*)0x57);
  failed |= api->gather(BUFFERS, 108, 7, 6, comm, (void*)0x58);
  failed |= api->scatter(BUFFERS, 109, 7, 7, comm, (void*)0x59);
  failed |= api->send((void*)0x5e4d, 110, 7, 1, comm, (void*)0x5a);
  failed |= api->recv((void*)0x5e4d, 111, 7, 2, comm, (void*)0x5b);
  return failed;
}

static int grouped(void) {
  api->group_start();
  api->group_start(); /* nested: only the outermost launches */
  api->send((void*)0x5e4d, 120, 7, 1, comm, (void*)0x60);
  api->group_end();
  api->recv((void*)0x5e4d, 121, 7, 1, comm, (void*)0x60);
  return api->group_end();
}

static long reduce_once(void) { return api->all_reduce(BUFFERS, 115, 7, 0, comm, (void*)0x51); }

/* Makes calls as code without frame pointers does: the frame pointer's register points at changing data of the caller.
 */
static long no_frame_pointers(long calls) {
  long failed = 0;
#if defined(__x86_64__)
  for (long i = 0; i < calls; i++) {
    unsigned long data[2] = {0, (unsigned long)&data[0] + 8 * (unsigned long)i};
    register unsigned long* frame asm("r12") = data;
    register long (*function)(void) asm("r13") = reduce_once;
    long result;
    asm volatile(
        "mov %%rsp, %%rbx\n sub $256, %%rsp\n and $-16, %%rsp\n push %%rbp\n push %%rbp\n"
        "mov %1, %%rbp\n call *%2\n"
        "pop %%rbp\n pop %%rbp\n mov %%rbx, %%rsp\n"
        : "=a"(result)
        : "r"(frame), "r"(function)
        : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
    failed |= result;
  }
#else
  for (long i = 0; i < calls; i++) {
    failed |= reduce_once();
  }
#endif
  return failed;
}

/* A communicator in memory as NCCL's is: rank 3 of 8. No call makes it. */
static long marked(long identity, long end) {
  const uint64_t magic = 0x0280028002800280;
  const uint64_t hash = 0xabc;
  const int32_t numbers[3] = {3, 8, 0};
  char* memory = calloc(1, (size_t)end + sizeof magic);
  memcpy(memory, &magic, sizeof magic);
  memcpy(memory + end, &magic, sizeof magic);
  memcpy(memory + identity, &hash, sizeof hash);
  memcpy(memory + identity + sizeof hash, numbers, sizeof numbers);
  comm = memory;
  return 0;
}

static int jump_out(void) {
  static jmp_buf back;
  if (setjmp(back) == 0) {
    api->next->jump = &back;
    return api->all_reduce(BUFFERS, 114, 7, 0, comm, (void*)0x51);
  }
  return 0;
}

static struct sockaddr_storage address_of(const char* text, int port, socklen_t* length) {
  struct sockaddr_storage storage = {0};
  struct sockaddr_in* v4 = (struct sockaddr_in*)&storage;
  struct sockaddr_in6* v6 = (struct sockaddr_in6*)&storage;
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    *length = sizeof *v4;
  } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    *length = sizeof *v6;
  }
  return storage;
}

static int listen_on(const char* text, int port) {
  socklen_t length = 0;
  const struct sockaddr_storage address = address_of(text, port, &length);
  const int on = 1;
  listener = socket(address.ss_family, SOCK_STREAM, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return bind(listener, (const struct sockaddr*)&address, length) || listen(listener, 8) ? errno : 0;
}

static int connect_to(const char* text, int port) {
  socklen_t length = 0;
  const struct sockaddr_storage address = address_of(text, port, &length);
  connection = socket(address.ss_family, SOCK_STREAM, 0);
  return connect(connection, (const struct sockaddr*)&address, length) ? errno : 0;
}

static long transfer(long bytes, int sending) {
  static char buffer[65536];
  long done = 0;
  while (done < bytes) {
    const size_t part = bytes - done < (long)sizeof buffer ? (size_t)(bytes - done) : sizeof buffer;
    const ssize_t moved = sending ? send(connection, buffer, part, MSG_NOSIGNAL) : recv(connection, buffer, part, 0);
    if (moved <= 0) {
      break;
    }
    done += moved;
  }
  return done;
}

static long close_it(int reset) {
  const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  if (reset) {
    setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  const int failed = close(connection);
  connection = -1;
  return failed;
}

static long total_retransmits(void) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info;
  getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &length);
  return (long)info.tcpi_total_retrans;
}

static long local_port(void) {
  struct sockaddr_storage storage;
  socklen_t length = sizeof storage;
  getsockname(connection, (struct sockaddr*)&storage, &length);
  return ntohs(((struct sockaddr_in*)&storage)->sin_port);
}

static long spin(long ms) {
  struct timespec start;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
  return 0;
}

/* Forks a child that lives for `ms` and, with `calls`, makes a call of its own; returns its pid. */
static long fork_child(long ms, long calls) {
  const pid_t child = fork();
  if (child == 0) {
    if (calls) {
      api->all_reduce(BUFFERS, 150, 7, 0, comm, (void*)0x51);
    }
    usleep((useconds_t)ms * 1000);
    _exit(0);
  }
  return child;
}

static long obey(const char* command, const char* text, long a, long b) {
  void* made[64];
  ncclUniqueId id = known_id();
  if (!strcmp(command, "init")) return api->init_rank(&comm, (int)a, id, (int)b);
  if (!strcmp(command, "init_config")) return api->init_rank_config(&comm, (int)a, id, (int)b, NULL);
  if (!strcmp(command, "init_scalable")) return api->init_rank_scalable(&comm, (int)a, (int)b, 1, &id, NULL);
  if (!strcmp(command, "init_all")) return api->init_all(made, (int)a, NULL);
  if (!strcmp(command, "init_fails")) {
    api->next->result = 2;
    return api->init_rank(&made[0], (int)a, id, (int)b);
  }
  if (!strcmp(command, "split")) return api->split(comm, (int)a, (int)b, made, NULL);
  if (!strcmp(command, "destroy")) return api->destroy(comm);
  if (!strcmp(command, "marked")) return marked(a, b);
  if (!strcmp(command, "all_calls")) return all_calls();
  if (!strcmp(command, "grouped")) return grouped();
  if (!strcmp(command, "no_frame_pointers")) return no_frame_pointers(a);
  if (!strcmp(command, "jump_out")) return jump_out();
  if (!strcmp(command, "all_reduce")) return api->all_reduce(BUFFERS, (size_t)a, 7, 0, comm, (void*)0x51);
  if (!strcmp(command, "refused")) {
    api->next->result = 4;
    return api->all_reduce(BUFFERS, (size_t)a, 7, 0, comm, (void*)0x51);
  }
  if (!strcmp(command, "never_returns")) {
    api->next->never_return = 1;
    return api->all_reduce(BUFFERS, (size_t)a, 7, 0, comm, (void*)0x51);
  }
  if (!strcmp(command, "listen")) return listen_on(text, (int)a);
  if (!strcmp(command, "connect")) return connect_to(text, (int)a);
  if (!strcmp(command, "accept")) return (connection = accept(listener, NULL, NULL)) < 0 ? errno : 0;
  if (!strcmp(command, "send")) return transfer(a, 1);
  if (!strcmp(command, "recv")) return transfer(a, 0);
  if (!strcmp(command, "close")) return close_it(0);
  if (!strcmp(command, "reset")) return close_it(1);
  if (!strcmp(command, "retransmits")) return total_retransmits();
  if (!strcmp(command, "port")) return local_port();
  if (!strcmp(command, "spin")) return spin(a);
  if (!strcmp(command, "fork")) return fork_child(a, b);
  if (!strcmp(command, "exit")) exit((int)a);
  return -1;
}

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  const struct standin_api* (*get)(void) = NULL;
  void* symbol = library ? dlsym(library, "standin_api") : NULL;
  if (!symbol) {
    fprintf(stderr, "job: %s\n", dlerror());
    return 1;
  }
  memcpy(&get, &symbol, sizeof get);
  api = get();
  char line[256];
  printf("0\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    char command[32] = "";
    char text[64] = "";
    long a = 0;
    long b = 0;
    if (sscanf(line, "%31s @%63s %ld", command, text, &a) < 2) {
      sscanf(line, "%31s %ld %ld", command, &a, &b);
    }
    printf("%ld\n", obey(command, text, a, b));
    fflush(stdout);
  }
  return 0;
}
