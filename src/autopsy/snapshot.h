// SPDX-License-Identifier: Apache-2.0
// The state of a job's ranks on one host, or on several, at one moment: where each rank is, and what its TCP sockets
// hold. Plain data: host/ makes it of a live host, hosts/ of the results of several, tests make it by hand, judge/
// decides what it shows.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/events/tcp.h"
#include "model/operation.h"
#include "stacks/nccl/find_communicators.h"
#include "stacks/rank_stacks.h"

namespace stalltrace::autopsy {

/// The timer of a socket that will expire next (inet_diag_msg::idiag_timer).
enum class Timer : uint8_t { kNone, kRetransmit, kKeepAlive, kTimeWait, kWindowProbe };

/// States of a TCP socket, numbered as in the kernel's include/net/tcp_states.h.
enum class TcpState : uint8_t {
  kUnknown,
  kEstablished,
  kSynSent,
  kSynReceived,
  kFinWait1,
  kFinWait2,
  kTimeWait,
  kClosed,
  kCloseWait,
  kLastAck,
  kListen,
  kClosing,
};
/// "ESTABLISHED", as ss and /proc/net/tcp name them.
std::string_view to_text(TcpState state);

/// A TCP socket, as the kernel's sock_diag reports it.
struct TcpSocket {
  uint64_t netns = 0;
  uint64_t inode = 0;
  Endpoint local;
  Endpoint remote;
  TcpState state = TcpState::kUnknown;
  Timer timer = Timer::kNone;
  uint32_t tries = 0;                // unanswered retransmissions, or window probes, by `timer`
  uint32_t backoff = 0;              // how often the retransmission time-out was doubled
  int64_t expires_ms = 0;            // until `timer` expires
  int64_t time_out_ms = 0;           // the retransmission time-out
  uint32_t receive_queue = 0;        // bytes that have arrived and that the process has not read
  uint32_t send_queue = 0;           // bytes that the peer has not acknowledged, sent or not
  uint32_t not_sent = 0;             // of these, bytes that were not sent yet
  uint64_t acked = 0;                // bytes that the peer has acknowledged so far
  uint64_t received = 0;             // bytes that have arrived so far
  std::optional<int64_t> silent_ms;  // since data were last sent or received; nullopt: none ever were
  int64_t ack_age_ms = 0;            // since the last acknowledgement arrived

  [[nodiscard]] bool same_socket(const TcpSocket& other) const {
    return inode == other.inode && netns == other.netns && local == other.local && remote == other.remote;
  }
};

/// How it is known that a rank is inside a call.
enum class Witness : uint8_t {
  kPython,  // a frame of a Python thread
  kNative,  // return addresses on a thread's stack
};

/// A call that a rank is inside of: of a collective library, or a wait for the device that its collectives run on.
struct OpenCall {
  std::string name;             // "all_reduce", "MPI_Allreduce", "cudaStreamSynchronize"
  std::optional<Operation> op;  // nullopt: a wait, for the device or for requests
  Witness witness = Witness::kPython;

  bool operator==(const OpenCall&) const = default;
};

enum class RunState : uint8_t {
  kAlive,
  kStopped,   // by a signal
  kDebugged,  // stopped by a debugger
  kFrozen,    // by a cgroup's freezer
};

struct RankState {
  std::string node;  // name of its host
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // of the process, in clock ticks since boot
  std::string job;           // the launcher's name for it; may be empty
  // The launcher's name where several jobs of the host have it: `job` then has more, and is known on this host alone.
  std::optional<std::string> launcher_job;
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  std::optional<int32_t> local_size;  // number of the job's ranks on this node
  std::string problem;                // why the process was not readable; empty: it was
  RunState run_state = RunState::kAlive;
  pid_t debugger = 0;  // with kDebugged; 0: unknown
  // Of the thread inside of a Python call, else of the main thread:
  std::string location;                       // "in load_batch at data.py:212", "in futex"
  std::optional<stacks::CallSite> call_site;  // of `location`; nullopt: it runs no Python, `location` is a wait
  std::string activity;                       // what it does there: "reading FIFO /data/in", "running"
  std::optional<OpenCall> call;
  // All that were read, with what each waits for and its Python frames, for output alone; null: none were. At most
  // kThreadsKept, the main thread first.
  std::shared_ptr<const std::vector<stacks::ThreadStack>> threads;
  size_t threads_left_out = 0;
  std::vector<std::pair<pid_t, OpenCall>> thread_calls;  // seen on native stacks, by thread
  bool call_known = false;   // `call` was searched for with success: nullopt then means that it is outside of all
  std::string call_problem;  // why it is not known
  uint64_t cpu_ticks = 0;    // CPU time of the process, in clock ticks
  std::vector<TcpSocket> sockets;
  std::string no_sockets;  // why there are none; empty: they were read
  std::vector<stacks::NcclCommunicator> communicators;
  std::string communicators_problem;  // why there may be more; empty: its memory was searched, or it has no NCCL
};

/// Between the first and the last snapshot of one host (--seconds).
inline constexpr int64_t kLongestWatchSeconds = 60;

/// Threads of a rank that a snapshot keeps.
inline constexpr size_t kThreadsKept = 64;

/// Rank numbers, and numbers of ranks, beyond this are not believed.
inline constexpr int32_t kMostRankNumber = 1 << 20;

struct Snapshot {
  int64_t taken_ns = 0;  // CLOCK_MONOTONIC
  std::vector<RankState> ranks;
  std::vector<std::string> host_addresses;  // of all network namespaces that were read
};

/// The calls between the first and the last snapshot, by tracing.
struct Traced {
  bool done = false;
  std::string problem;  // why it was not done; empty: it was not wanted
  int64_t lasted_ns = 0;
  struct Calls {
    int64_t ended = 0;
    int64_t launched = 0;  // returned at once, and nothing showed the end of the transfer
  };
  std::vector<std::pair<pid_t, Calls>> calls;  // by process
};

/// What NCCL's RAS answered to one question about a job.
struct RasAccount {
  std::string job;                      // of the process that answered
  std::string address;                  // where
  int64_t asked_ns = 0;                 // UTC
  std::string report;                   // "report of NCCL's RAS 2.28.9: 3 communicators"
  std::vector<std::string> statements;  // texts of RasStatement (model/events/imported/ras_statement.h)
};

}  // namespace stalltrace::autopsy
