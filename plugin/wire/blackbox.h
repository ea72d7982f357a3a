/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler file: the format of the file that a process with the profiler plugin writes about itself.
 * docs/profiler_file.md describes it, with the rules for a reader. Plain C, fixed width, explicit padding, the host's
 * byte order.
 *
 * A file is: header | communicators | open events (slots) | ring of ended events. Offsets and counts are in the header;
 * a reader checks them against the file's size before use. All times are CLOCK_MONOTONIC nanoseconds unless a name says
 * otherwise, 0 if unknown. */
#ifndef STALLTRACE_WIRE_BLACKBOX_H
#define STALLTRACE_WIRE_BLACKBOX_H

#ifdef __cplusplus
#include <cstdint>
#define ST_BOX_ASSERT static_assert
#else
#include <stdint.h>
#define ST_BOX_ASSERT _Static_assert
#endif

#define ST_BOX_MAGIC "STBLKBOX" /* 8 bytes, no terminator */
#define ST_BOX_VERSION 1u
#define ST_BOX_BYTE_ORDER 0x01020304u

#define ST_BOX_CLOCK_ANCHORS 64u
#define ST_BOX_COUNTERS 16u
#define ST_BOX_PAUSES 16u

/* The file's name is stalltrace-PID-START.profiler, or, if that is taken, with -1, -2 ... before the suffix.
 * ST_BOX_NAMES is the number of names that are tried. */
#define ST_BOX_PREFIX "stalltrace-"
#define ST_BOX_SUFFIX ".profiler"
#define ST_BOX_NAMES 64
/* Where files are, unless STALLTRACE_DIR names another folder. */
#define ST_BOX_FOLDER "/dev/shm"

/* An event's id and its parent's: tag << 48 | generation << 16 | slot. The tag is the writer's (header.process_tag), so
 * an id with another tag names an event of another process's file. 0: none. */
#define ST_BOX_ID_SLOT_MASK 0xffffull
#define ST_BOX_ID_GENERATION_SHIFT 16
#define ST_BOX_ID_TAG_SHIFT 48

/* commit of an event in the ring: 0 never written; (n << 1 | 1) + 2 while record number n is being written,
 * (n << 1) + 2 when it is whole. Record n lies at index n % ring_capacity. */
#define ST_BOX_RING_WRITING(n) ((((uint64_t)(n)) << 1 | 1) + 2)
#define ST_BOX_RING_WHOLE(n) ((((uint64_t)(n)) << 1) + 2)

/* commit of a slot: flags << 62 | open parts << 40 | generation << 8 | phase. Open parts hold the slot: a collective's
 * proxy operations and kernel channels that have not ended, or a thread that is changing it now. */
#define ST_BOX_PHASE_MASK 0xffull
#define ST_BOX_SLOT_GENERATION_SHIFT 8
#define ST_BOX_SLOT_GENERATION_MASK 0xffffffffull
#define ST_BOX_SLOT_PARTS_SHIFT 40
#define ST_BOX_SLOT_PARTS_MASK 0x3fffffull
#define ST_BOX_SLOT_ABANDONED (1ull << 62) /* its communicator is gone */
#define ST_BOX_SLOT_HAD_PARTS (1ull << 63)
enum st_box_phase {
  ST_BOX_FREE = 0,
  ST_BOX_WRITING = 1, /* claimed, being filled: its content is invalid */
  ST_BOX_OPEN = 2,    /* NCCL has not stopped it */
  ST_BOX_ENDED = 3,   /* NCCL has stopped it; a collective is enqueued, its parts may be open or yet to come */
  ST_BOX_QUIET = 4,   /* a collective whose parts so far have all ended; a late one makes it ENDED again */
  ST_BOX_CLOSING = 5, /* over, being copied to the ring */
};

enum st_box_type {
  ST_BOX_GROUP = 1, /* the operations of one kernel launch */
  ST_BOX_COLL,
  ST_BOX_P2P,
  ST_BOX_PROXY_OP,
  ST_BOX_PROXY_STEP,
  ST_BOX_PROXY_CTRL,
  ST_BOX_KERNEL_CHANNEL,
  ST_BOX_NET,
  ST_BOX_GROUP_API, /* this and the next three: calls on the user's thread */
  ST_BOX_COLL_API,
  ST_BOX_P2P_API,
  ST_BOX_KERNEL_LAUNCH,
  ST_BOX_CE_COLL, /* by the copy engines; start and end are the launch's */
  ST_BOX_CE_SYNC,
  ST_BOX_CE_BATCH,
};

enum st_box_operation {
  ST_BOX_OP_UNKNOWN = 0,
  ST_BOX_OP_ALL_REDUCE,
  ST_BOX_OP_ALL_GATHER,
  ST_BOX_OP_REDUCE_SCATTER,
  ST_BOX_OP_BROADCAST,
  ST_BOX_OP_REDUCE,
  ST_BOX_OP_ALL_TO_ALL,
  ST_BOX_OP_GATHER,
  ST_BOX_OP_SCATTER,
  ST_BOX_OP_SEND,
  ST_BOX_OP_RECV,
  ST_BOX_OP_SEND_RECV,
  ST_BOX_OP_PUT_SIGNAL,
  ST_BOX_OP_SIGNAL,
  ST_BOX_OP_WAIT_SIGNAL,
};

enum st_box_algorithm {
  ST_BOX_ALGO_UNKNOWN = 0,
  ST_BOX_ALGO_TREE,
  ST_BOX_ALGO_RING,
  ST_BOX_ALGO_COLLNET_DIRECT,
  ST_BOX_ALGO_COLLNET_CHAIN,
  ST_BOX_ALGO_NVLS,
  ST_BOX_ALGO_NVLS_TREE,
  ST_BOX_ALGO_PAT,
};

enum st_box_protocol {
  ST_BOX_PROTO_UNKNOWN = 0,
  ST_BOX_PROTO_LL,
  ST_BOX_PROTO_LL128,
  ST_BOX_PROTO_SIMPLE,
};

#define ST_BOX_DATATYPE_UNKNOWN 255 /* else the number in ncclDataType_t */
#define ST_BOX_NUMBER_UNKNOWN 0xffffffffffffffffull

enum st_box_event_flags {
  ST_BOX_WHOLE_COLL = 1,      /* coll: as many kernel channels have ended as it has channels */
  ST_BOX_KERNEL_EXPECTED = 2, /* coll: NCCL reports every kernel channel's start and end */
  ST_BOX_UNFINISHED = 4,      /* put into the ring without its end: the communicator ended, or the slot was needed */
  ST_BOX_GRAPH_CAPTURED = 8,  /* API calls: captured into a CUDA graph */
  ST_BOX_FOREIGN_PARENT = 16, /* proxy op: its collective is in another process's file */
  ST_BOX_OWN_SEQUENCE = 32,   /* p2p: sequence is the plugin's own count */
  ST_BOX_SEND_SIDE = 64,      /* proxy op and step: this rank sends */
  ST_BOX_KERNELS_UNTRUE = 64, /* coll: NCCL reports its kernel channels too early, so they do not count as its parts */
  ST_BOX_COUNTED = 128,       /* proxy op, kernel channel: its collective counts it among its parts */
  ST_BOX_LONG_STEP = 1,       /* proxy step: it waited long, the first of a run of its operation */
  ST_BOX_OF_P2P = 2,          /* proxy op and step: of a Send or Recv */
};

/* A step that waited this long for one thing is recorded even if steps are not ... */
#define ST_BOX_LONG_WAIT_NS 5000000ull
/* ... but only the first of this many steps in a row, since that many are under way together, and wait together. */
#define ST_BOX_STEPS_UNDER_WAY 8

/* What a proxy step waits for; the index of wait_ns and the values of `state`. */
enum st_box_wait {
  ST_BOX_WAIT_GPU = 0, /* the sender's GPU to produce, or the receiver's GPU to take the data */
  ST_BOX_WAIT_PEER =
      1, /* send: the receiver's buffer to be ready. receive: data to become visible to the GPU (flush) */
  ST_BOX_WAIT_NETWORK = 2, /* send: delivery. receive: arrival */
  ST_BOX_WAITS = 3,
  ST_BOX_WAIT_NONE = 255,
};

/* Why something is not in the file. Index of header.lost. */
enum st_box_loss {
  ST_BOX_LOST_NO_SLOT = 0,     /* every slot has an open event: the event was not recorded */
  ST_BOX_LOST_LAPPED,          /* the writer's slot in the ring was held by a writer a whole lap behind */
  ST_BOX_LOST_NO_COMMUNICATOR, /* communicators beyond the table: their events have communicator 0 */
  ST_BOX_LOST_STALE_HANDLE,    /* an end or state for an event that is not open: ended twice, or evicted */
  ST_BOX_LOST_FOREIGN_HANDLE,  /* an end or state for a handle this process did not give out */
  ST_BOX_LOST_UNKNOWN_TYPE,    /* an event type of a later NCCL */
  ST_BOX_LOST_UNKNOWN_STATE,   /* a state of a later NCCL, or one that does not fit the event */
  ST_BOX_LOST_LATE_PART,       /* a part whose collective had left its slot: in the ring, not in the collective */
  ST_BOX_LOST_EVICTED,         /* open collectives without parts whose slot was needed: in the ring, UNFINISHED */
};

/* CLOCK_MONOTONIC and CLOCK_REALTIME at one moment. monotonic_ns is 0 while the pair is being written. */
struct st_box_clock_anchor {
  uint64_t monotonic_ns;
  uint64_t realtime_ns;
};

/* An interval without heartbeats although one was due. runnable_ns: the part of it in which the thread was ready and
 * had no CPU; ~0 unknown. from_ns is 0 while the entry is being written. */
struct st_box_pause {
  uint64_t from_ns;
  uint64_t to_ns;
  uint64_t runnable_ns;
};

/* Interval between heartbeats. */
#define ST_BOX_BEAT_NS 250000000ull
/* Shorter intervals are not pauses: threads of a busy machine wait that long at times. */
#define ST_BOX_PAUSE_NS 1000000000ull

enum st_box_state {
  ST_BOX_RECORDING = 1,
  ST_BOX_CLOSED = 2, /* every communicator has ended; more may come */
};

struct st_box_header {
  char magic[8];
  uint32_t version;
  uint32_t byte_order;
  uint32_t header_bytes;
  uint32_t communicator_bytes;
  uint32_t event_bytes;
  uint32_t padding_0;
  uint64_t file_bytes;
  uint64_t communicator_offset;
  uint64_t communicator_capacity;
  uint64_t slot_offset;
  uint64_t slot_capacity; /* a power of two, at most 65536 */
  uint64_t ring_offset;
  uint64_t ring_capacity; /* a power of two */

  /* The writer. */
  uint32_t pid;                 /* in its own pid namespace */
  uint32_t process_tag;         /* 16 bits, not 0; upper bits of every id */
  uint64_t process_start_ticks; /* field 22 of /proc/self/stat */
  uint64_t ticks_per_second;
  uint64_t pid_namespace;     /* inode of /proc/self/ns/pid */
  uint64_t network_namespace; /* inode of /proc/self/ns/net */
  uint64_t created_ns;
  uint64_t created_realtime_ns;
  uint32_t uid;
  int32_t env_rank; /* RANK, or another launcher's variable; -1 unknown */
  int32_t env_local_rank;
  int32_t env_world_size;
  uint32_t interface_version; /* of NCCL's profiler interface, 1 to 6 */
  int32_t nccl_version;       /* as ncclGetVersion says it, 0 unknown */
  uint32_t event_mask;        /* the event bits requested from NCCL */
  uint32_t kept_mask;         /* 1 << st_box_type of the recorded types */

  /* State; written while recording. */
  uint32_t state; /* enum st_box_state */
  uint32_t open_communicators;
  uint64_t closed_ns;
  uint64_t communicators_made; /* serial of the newest */
  uint64_t anchors_written;    /* the n-th lies at index n % ST_BOX_CLOCK_ANCHORS */
  uint64_t lost[ST_BOX_COUNTERS];
  struct st_box_clock_anchor anchors[ST_BOX_CLOCK_ANCHORS];

  /* NUL-terminated text. */
  char boot_id[40];
  char hostname[64];
  char node[64];   /* STALLTRACE_NODE, else empty */
  char job_id[64]; /* SLURM_JOB_ID, or another launcher's */
  char thread_name[16];
  char command[256]; /* arguments separated by blanks, cut */

  /* The heartbeat: a thread of the plugin wakes a few times a second while communicators live, whatever NCCL does. In a
   * stopped or frozen process it does not run. */
  uint64_t heartbeat_ns;       /* the last heartbeat; 0: none */
  uint64_t heartbeat_ended_ns; /* when it was asked to end; 0: it is running */
  uint64_t pauses_filled;      /* the n-th lies at index n % ST_BOX_PAUSES */
  struct st_box_pause pauses[ST_BOX_PAUSES];
  uint8_t padding_1[1688];
  uint64_t anchored_ns; /* the newest anchor's monotonic_ns */

  /* Each on its own cache line, so that counting does not disturb reading. */
  uint64_t ring_head; /* number of the next record */
  uint8_t padding_2[56];
  uint64_t slot_cursor; /* where the writer looks for the next free slot */
  uint8_t padding_3[56];
};

/* A communicator. serial is written last; 0: unused. A later communicator may take a destroyed one's entry. */
struct st_box_communicator {
  uint64_t serial; /* from 1; events name it */
  uint64_t hash;   /* NCCL's own communicator hash (commId); 0 unknown */
  int32_t rank;    /* -1 unknown */
  int32_t ranks;   /* 0 unknown: not reported by interface v1 to v3 */
  int32_t nodes;
  uint32_t own_transfers; /* 1: this rank has sent to itself; since then NCCL's reports about kernels are wrong */
  uint64_t created_ns;
  uint64_t destroyed_ns; /* 0: alive */
  uint64_t collectives;  /* number started so far */
  uint64_t sends;
  uint64_t receives;
  char name[64];
  uint8_t reserved[120];
};

/* ST_BOX_COLL and ST_BOX_P2P. start_ns: NCCL began to enqueue it. end_ns: end of its last part (proxy operation or
 * kernel channel) so far; 0 while one is open or none was seen. */
struct st_box_coll {
  uint64_t sequence;    /* NCCL's: per function and communicator. p2p: per communicator, direction and peer */
  uint64_t call_number; /* n-th collective of this rank on the communicator, whatever the function: its call's number,
                           or in launch order where calls are not reported; ~0 unknown */
  uint64_t count;
  uint64_t enqueued_ns;     /* NCCL's stopEvent: the kernel is launched */
  uint64_t kernel_start_ns; /* start of the first kernel channel, when the host saw it */
  uint64_t gpu_start_ns;    /* GPU's global timer: earliest start, latest stop */
  uint64_t gpu_stop_ns;
  int32_t root_or_peer;
  uint8_t operation;
  uint8_t datatype;
  uint8_t algorithm;
  uint8_t protocol;
  uint16_t ops_started;
  uint16_t ops_ended;
  uint16_t kernels_started;
  uint16_t kernels_ended;
};

/* ST_BOX_PROXY_OP: one channel's transfer with one peer. */
struct st_box_proxy_op {
  int32_t peer;      /* rank in the communicator */
  int32_t maker_pid; /* process of the collective */
  int32_t steps;
  int32_t chunk_bytes;
  uint64_t transferred_bytes;
  uint32_t steps_ended;
  uint16_t nccl_state;            /* the operation's last one; interface v1 to v3: enum EventState 0 to 7 */
  uint16_t long_step;             /* lower bits of 1 + the number of the last LONG_STEP; 0 none */
  uint64_t in_progress_ns;        /* first progress; 0 none */
  uint64_t last_step_ns;          /* end of the latest ended step */
  uint64_t wait_ns[ST_BOX_WAITS]; /* sums over the ended steps */
};

/* ST_BOX_PROXY_STEP: one chunk. While open, its current wait and when that started. */
struct st_box_proxy_step {
  int32_t step;
  int32_t peer;  /* from the operation; -1 unknown */
  uint8_t state; /* enum st_box_wait */
  uint8_t nccl_state;
  uint16_t padding;
  uint32_t padding_2;
  uint64_t state_since_ns;
  uint64_t transferred_bytes;
  uint64_t coll; /* id of the operation's collective */
  uint64_t wait_ns[ST_BOX_WAITS];
  uint64_t reserved;
};

/* ST_BOX_KERNEL_CHANNEL */
struct st_box_kernel_channel {
  uint64_t gpu_start_ns;
  uint64_t gpu_stop_ns;
  uint64_t reserved[7];
};

/* ST_BOX_GROUP, _GROUP_API, _COLL_API, _P2P_API, _KERNEL_LAUNCH: events on the caller's thread. */
struct st_box_api {
  uint64_t count;
  uint64_t stream;
  int32_t root;
  int32_t depth;
  uint8_t operation;
  uint8_t datatype;
  uint16_t padding;
  uint32_t padding_2;
  uint64_t start_returned_ns; /* group API: ncclGroupStart returned */
  uint64_t end_entered_ns;    /* group API: ncclGroupEnd was called */
  uint64_t call_ordinal;      /* coll API: 1 + its number among the communicator's collectives; 0 not counted */
  uint64_t reserved[2];
};

/* ST_BOX_CE_COLL, _CE_SYNC, _CE_BATCH */
struct st_box_ce {
  uint64_t sequence;
  uint64_t count; /* batch: bytes */
  uint64_t stream;
  int32_t root;
  uint32_t batch_size;
  uint32_t batches; /* batch: its operations. sync: ranks */
  uint32_t ce_sequence;
  uint8_t operation;
  uint8_t datatype;
  uint8_t multicast; /* the strategy of the synchronisation is "MC" */
  uint8_t intra_sync;
  uint8_t is_complete; /* sync */
  uint8_t padding[3];
  uint64_t call_ordinal; /* coll: as the API call's */
  uint64_t reserved[2];
};

/* ST_BOX_NET: a network plugin's report about a request; from NCCL's own transports, and only if NCCL was built with
 * it. */
struct st_box_net {
  int64_t plugin_id;
  int32_t fd_or_device;
  int32_t operation;
  uint64_t length_bytes;
  uint64_t work_request;
  int32_t queue_pair;
  uint32_t updates;
  uint64_t reserved[4];
};

/* ST_BOX_PROXY_CTRL: activity of the proxy thread itself. */
struct st_box_proxy_ctrl {
  int32_t nccl_state; /* the last one */
  int32_t appended_ops;
  uint64_t reserved[8];
};

/* An event: open in a slot, ended in the ring. */
struct st_box_event {
  uint64_t commit;
  uint64_t id;
  uint64_t parent; /* proxy op, kernel channel: its coll. step: its op. coll: the API call, before v5 the group */
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t communicator; /* serial; 0 unknown */
  uint32_t tid;          /* of the thread that started it, in its pid namespace */
  uint8_t type;          /* enum st_box_type */
  uint8_t flags;         /* enum st_box_event_flags */
  uint16_t channels;     /* coll: number of channels, 0 unknown. proxy op, kernel channel: the channel */
  int32_t rank;          /* as reported by NCCL */
  union {
    struct st_box_coll coll;
    struct st_box_proxy_op proxy_op;
    struct st_box_proxy_step proxy_step;
    struct st_box_kernel_channel kernel_channel;
    struct st_box_api api;
    struct st_box_ce ce;
    struct st_box_net net;
    struct st_box_proxy_ctrl proxy_ctrl;
    uint8_t bytes[72];
  } u;
};

/* A Send or Recv of a rank with itself. NCCL gives it neither a proxy operation nor a kernel channel: nothing reports
 * its end, and it waits for no other rank, whatever its flags are (files of earlier plugins expect a kernel). */
static inline int st_box_is_own_transfer(const struct st_box_event* event) {
  return event->type == ST_BOX_P2P && event->rank == event->u.coll.root_or_peer;
}

ST_BOX_ASSERT(sizeof(struct st_box_header) == 4096, "wire layout");
ST_BOX_ASSERT(sizeof(struct st_box_communicator) == 256, "wire layout");
ST_BOX_ASSERT(sizeof(struct st_box_coll) == 72, "wire layout");
ST_BOX_ASSERT(sizeof(struct st_box_proxy_op) == 72, "wire layout");
ST_BOX_ASSERT(sizeof(struct st_box_proxy_step) == 72, "wire layout");
ST_BOX_ASSERT(sizeof(struct st_box_kernel_channel) == 72, "wire layout");
ST_BOX_ASSERT(sizeof(struct st_box_api) == 72, "wire layout");
ST_BOX_ASSERT(sizeof(struct st_box_ce) == 72, "wire layout");
ST_BOX_ASSERT(sizeof(struct st_box_net) == 72, "wire layout");
ST_BOX_ASSERT(sizeof(struct st_box_proxy_ctrl) == 72, "wire layout");
ST_BOX_ASSERT(sizeof(struct st_box_event) == 128, "wire layout");

#endif
