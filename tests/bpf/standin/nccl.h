/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NCCL with the real names and prototypes and no implementation. Tests set beforehand what a call does
 * besides returning. */
#ifndef STANDIN_NCCL_H
#define STANDIN_NCCL_H

#include <setjmp.h>
#include <stddef.h>

typedef struct {
  char internal[128];
} ncclUniqueId;

/* The behaviour of the next call, which clears it. */
struct standin_next {
  int result;       /* returns this */
  int never_return; /* sleeps for ever */
  jmp_buf* jump;    /* leaves by longjmp */
};

struct standin_api {
  struct standin_next* next;
  int (*all_reduce)(const void*, void*, size_t, int, int, void*, void*);
  int (*reduce_scatter)(const void*, void*, size_t, int, int, void*, void*);
  int (*reduce)(const void*, void*, size_t, int, int, int, void*, void*);
  int (*all_gather)(const void*, void*, size_t, int, void*, void*);
  int (*broadcast)(const void*, void*, size_t, int, int, void*, void*);
  int (*bcast)(void*, size_t, int, int, void*, void*);              /* calls broadcast */
  int (*all_to_all)(const void*, void*, size_t, int, void*, void*); /* tail-calls all_gather */
  int (*gather)(const void*, void*, size_t, int, int, void*, void*);
  int (*scatter)(const void*, void*, size_t, int, int, void*, void*);
  int (*send)(const void*, size_t, int, int, void*, void*);
  int (*recv)(void*, size_t, int, int, void*, void*);
  int (*group_start)(void);
  int (*group_end)(void);
  int (*init_rank)(void**, int, ncclUniqueId, int);
  int (*init_rank_config)(void**, int, ncclUniqueId, int, void*);
  int (*init_rank_scalable)(void**, int, int, int, ncclUniqueId*, void*);
  int (*init_all)(void**, int, const int*);
  int (*split)(void*, int, int, void**, void*);
  int (*destroy)(void*);
  int (*user_rank)(void*, int*);
};

/* The only name that both builds of the library export. */
const struct standin_api* standin_api(void);

#endif
