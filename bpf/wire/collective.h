/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Calls of the collective library and of the GPU runtime's synchronisation. */
#ifndef STALLTRACE_WIRE_COLLECTIVE_H
#define STALLTRACE_WIRE_COLLECTIVE_H

#include "wire/header.h"

#define ST_MAX_CALLS 256       /* a power of two, so that a mask bounds a row */
#define ST_MAX_LOCAL_RANKS 64  /* reported communicators of one ncclCommInitAll */
#define ST_UNIQUE_ID_BYTES 128 /* sizeof(ncclUniqueId) */
#define ST_ARGUMENT_SLOTS 16   /* a power of two, so that a mask bounds an index */
#define ST_MAX_STACK_ARGUMENTS 5
/* Reported requests of one MPI_Waitall; a power of two, and the number of bits in a word. */
#define ST_MAX_REQUESTS 64

/* An attach cookie: the row of the call table, below ST_MAX_CALLS, and flags of the probed file. */
#define ST_COOKIE_INT_HANDLES (1 << 16) /* MPICH's: an MPI handle is an int, not a pointer */

/* The action of a probed function; it decides what the programs record about it. */
enum st_call_kind {
  ST_CALL_UNUSED = 0,
  ST_CALL_DATA,             /* a collective or point-to-point call */
  ST_CALL_COMM_INIT,        /* makes one communicator from a unique id */
  ST_CALL_COMM_INIT_ALL,    /* makes `count` communicators in this process */
  ST_CALL_COMM_SPLIT,       /* makes a communicator from another */
  ST_CALL_COMM_END,         /* destroys or aborts one */
  ST_CALL_COMM_QUERY_RANK,  /* writes the caller's rank through a pointer */
  ST_CALL_COMM_QUERY_COUNT, /* writes the number of ranks through a pointer */
  ST_CALL_GROUP_START,
  ST_CALL_GROUP_END,
  ST_CALL_SYNC_STREAM, /* returns when the stream's work is done */
  ST_CALL_SYNC_DEVICE,
  ST_CALL_SYNC_EVENT,
  ST_CALL_EVENT_RECORD,       /* stores the stream's position in an event */
  ST_CALL_STREAM_WAIT_EVENT,  /* later work of the stream waits for the event */
  ST_CALL_WAIT_REQUEST,       /* returns when an asynchronous call's request is done */
  ST_CALL_WAIT_ALL_REQUESTS,  /* ... when `count` requests are */
  ST_CALL_WAIT_ANY_REQUEST,   /* ... when one of `count` requests is; `out` holds its index */
  ST_CALL_WAIT_SOME_REQUESTS, /* ... when some of `count` requests are; `done` holds how many, `indices` which */
  ST_CALL_WORLD_INIT,         /* makes the communicator of all ranks, at the address given by the library's file */
  ST_CALL_WORLD_END,          /* destroys it */
  ST_CALL_FINISHED,           /* entered when the thread's call has finished */
  ST_CALL_FAILED,             /* ... when it threw */
  ST_CALL_SET_UP,             /* entered when the communicators that the process was making are made */
  ST_CALL_BEGIN_CAPTURE,      /* what the stream is given from here on is captured into a graph, and does not run */
  ST_CALL_END_CAPTURE,
  ST_CALL_GRAPH_LAUNCH, /* runs what was captured */
};

/* Values of st_call_spec.library that the programs know: stalltrace::Library. */
#define ST_LIBRARY_NCCL 0
#define ST_LIBRARY_RCCL 1
#define ST_NCCL_IN_PROGRESS 7 /* ncclInProgress: the call was accepted, and goes on in the background */

/* The arguments' meaning: 1-based slots, 0 if the call has no such argument. One row of the call table. */
struct st_call_spec {
  __u8 kind;      /* enum st_call_kind */
  __u8 operation; /* stalltrace::Operation, carried through untouched */
  __u8 library;
  __u8 count;
  __u8 datatype;
  __u8 reduce_op;
  __u8 root;
  __u8 peer;
  __u8 comm;
  __u8 stream;
  __u8 event;
  __u8 new_comm; /* pointer to where the new communicator (or communicators) is written */
  __u8 out;      /* pointer to an int result */
  __u8 nranks;
  __u8 rank;
  __u8 color;
  __u8 key;
  __u8 id;              /* the unique id's slot among the arguments of its convention, 0 none */
  __u8 id_by_value;     /* 1: ncclUniqueId by value; 0: a pointer to the first of several ids */
  __u8 stack_arguments; /* how many arguments lie beyond the registers on x86-64, at most ST_MAX_STACK_ARGUMENTS */
  __u8 blocking;        /* 1: its return is the end of the operation */
  __u8 mpi_datatype;    /* an MPI_Datatype: the element's size is read from it */
  __u8 request;         /* pointer to where an asynchronous call's request is written, or to the awaited requests */
  __u8 entry_only;      /* 1: C++ that may throw; it gets no return probe, in which an exception ends the process */
  /* A C++ call with one argument, a reference to a struct of options: byte offsets in it, 0 where it has none. */
  __u8 options;              /* 1: such a call; the struct begins with a pointer to the communicator */
  __u8 option_count;         /* u64 */
  __u8 option_element_bytes; /* u64 */
  __u8 option_root;          /* s32 */
  __u8 option_tag;           /* u32 */
  __u8 option_buffer;        /* pointer to a buffer whose size gives the count */
  /* For a call that waits for requests. */
  __u8 done; /* pointer to an int; 0 there: nothing is done, the call is one poll of many. No such slot: all is done */
  __u8 indices; /* pointer to the indices of the done requests */
};

/* In a gloo::Context (gloo/context.h): after the pointer to its functions; in a gloo::transport::UnboundBuffer
 * (gloo/transport/unbound_buffer.h): after that pointer and the data's. */
#define ST_GLOO_CONTEXT_RANK 8
#define ST_GLOO_CONTEXT_SIZE 12
#define ST_GLOO_BUFFER_SIZE 16

/* NCCL marks the first and the last word of a communicator in use; where the rest is, depends on its version
 * (src/stacks/nccl/comm_layout.h). */
#define ST_NCCL_MAGIC 0x0280028002800280ULL
#define ST_NCCL_LAYOUTS 32

struct st_nccl_layout {
  __u32 identity;   /* offset of struct st_nccl_fields */
  __u32 end;        /* offset of the last word; 0: no layout */
  __u32 counters;   /* offset of the words that count launches */
  __u32 operations; /* how many words, one for each operation or one for all; 0: none */
};
#define ST_NCCL_OPERATIONS 5
#define ST_NCCL_NOT_COUNTED (~0ULL)

/* As they follow each other in NCCL's struct ncclComm. */
struct st_nccl_fields {
  __u64 hash; /* commHash; 0: it could not be read */
  __s32 rank;
  __s32 nranks;
};

/* What NCCL's memory shows of a communicator, sent before the record of each of its first calls. */
struct st_nccl_identity {
  struct st_header header;
  __u64 comm;
  struct st_nccl_fields fields;
  __u64 launched; /* collectives that NCCL has launched on it; ST_NCCL_NOT_COUNTED: not known */
  __u64 sequence; /* of the call that begins: how many collectives were seen before it */
};

#define ST_STACK_FRAMES 32 /* frames kept per stack, innermost first */

enum st_call_flags {
  ST_CALL_IN_GROUP = 1,
  ST_CALL_HAS_TAG = 2,
};

struct st_call_entry {
  struct st_header header;
  __u64 count;
  __u64 comm;
  __u64 stream;
  __u64 sequence; /* n-th of its kind on this communicator, from 0 */
  __u64 group_id;
  __u64 cgroup_id;
  __u64 group_started_ns; /* kind GROUP_END: entry of the outermost ncclGroupStart */
  __u64 last_net_ns;      /* st_process.last_nccl_net_ns, or last_net_ns where that is 0 */
  __u64 net_bytes;        /* st_process.net_bytes */
  __s32 datatype;
  __s32 reduce_op;
  __s32 root;
  __s32 peer;
  __u16 row; /* of the call table */
  __u16 flags;
  __u16 padding[2];
  __u32 element_bytes; /* where the call says; 0: unknown, or `datatype` says */
  __u32 tag;           /* with ST_CALL_HAS_TAG: a number that all ranks give this call */
  __s32 comm_rank;     /* rank in the communicator, if the call shows it; -1: unknown */
  __s32 comm_size;
  __u64 call_site; /* call site, from an earlier st_call_stack; 0 unknown */
};

/* The stack of a call, sent when its thread calls from a site for the first time. */
struct st_call_stack {
  struct st_header header;
  __u64 call_site;      /* a hash; other threads' equal values are coincidence */
  __u64 return_address; /* of the call, since the walk by frame pointers may miss it */
  __u32 frames;
  __u32 padding;
  __u64 addresses[ST_STACK_FRAMES]; /* innermost first */
};

struct st_call_return {
  struct st_header header;
  __u64 entry_ns;
  __u64 comm;  /* as at entry */
  __u64 value; /* the new communicator, the int a query wrote, or the request of an asynchronous call */
  __u64 group_id;
  __s32 return_code;
  __u16 row;
  __u16 flags;
};

/* Entry of a call that makes a communicator. */
struct st_comm_init {
  struct st_header header;
  __u64 cgroup_id;
  __u64 parent_comm;
  __u64 comm; /* the new one's address, if known at entry; else 0 */
  __s32 nranks;
  __s32 rank;
  __s32 color;
  __s32 key;
  __u16 row;
  __u16 has_id;
  __u32 padding;
  __u8 id[ST_UNIQUE_ID_BYTES];
};

/* A synchronisation call, written at its return: header.time_ns. */
struct st_sync {
  struct st_header header;
  __u64 entry_ns;
  __u64 stream;
  __u64 event; /* or the only awaited request; kind GRAPH_LAUNCH: launches of this thread since its last such record */
  __u64 last_net_ns;
  __u64 net_bytes;
  __s32 return_code;
  __u16 row;
  __u16 kind;
};

/* A call that waits for several requests, written at its return if some of them are done. */
struct st_requests_done {
  struct st_header header;
  __u64 entry_ns;
  __u64 last_net_ns;
  __u64 net_bytes;
  __s32 return_code;
  __u16 row;
  __u16 kind;
  __u64 done; /* one bit for each request that this call ended */
  __u32 count;
  __u32 int_handles;              /* 1: `handles` is an array of 32-bit handles */
  __u64 handles[ST_MAX_REQUESTS]; /* as they were at entry */
};

/* Key of the map `sequences`. */
struct st_sequence_key {
  __u64 comm;
  __u64 peer; /* ST_SEQUENCE_COLLECTIVE, or operation << 32 | peer for point-to-point */
  __u32 tgid;
  __u32 start_ticks; /* of the process: another one with its number does not go on with its counts */
};
#define ST_SEQUENCE_COLLECTIVE (~0ULL)

/* Value of the map `sequences`. */
struct st_sequence {
  __u64 next;
  __u32 user; /* in whose share it is */
  __u32 padding;
};

ST_STATIC_ASSERT(sizeof(struct st_sequence_key) == 24, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_sequence) == 16, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_call_spec) == 32, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_call_entry) == 144, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_call_stack) == sizeof(struct st_header) + 24 + 8 * ST_STACK_FRAMES, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_call_return) == 64, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_comm_init) == 200, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_sync) == 72, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_requests_done) == 72 + 8 * ST_MAX_REQUESTS, "wire layout");

#endif
