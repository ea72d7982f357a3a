// SPDX-License-Identifier: Apache-2.0
// The events of a recording: one struct per table, same names as the columns (docs/recording.md).
// Plain values, no I/O. Times are UTC nanoseconds, durations nanoseconds; sizes bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/operation.h"

namespace stalltrace {

/// One agent's run on one node. Unique across a fleet: see make_node_id.
using NodeId = uint32_t;
/// node_id << 40 | number. Shown as "NODE:number".
using EventId = int64_t;

inline constexpr int kEventNumberBits = 40;
inline constexpr int kNodeIdBits = 23;

constexpr EventId make_event_id(NodeId node, uint64_t number) {
  return static_cast<EventId>((static_cast<uint64_t>(node) << kEventNumberBits) | number);
}
constexpr NodeId node_of(EventId id) { return static_cast<NodeId>(static_cast<uint64_t>(id) >> kEventNumberBits); }
constexpr uint64_t number_of(EventId id) { return static_cast<uint64_t>(id) & ((1ULL << kEventNumberBits) - 1); }

/// 23 bits of a hash of who recorded and when; never 0.
NodeId make_node_id(std::string_view name, std::string_view boot_id, int64_t started_ns);

/// 0 means unknown: no communicator hashes to 0 in practice, and one that did would only lose its name.
using CommHash = uint64_t;

/// "0x0123456789abcdef"
std::string format_hash(uint64_t hash);

struct Node {
  NodeId node_id = 0;
  std::string name;
  std::string hostname;
  std::string boot_id;
  std::string kernel;
  std::string agent_version;
  int64_t started_ns = 0;
  std::optional<int64_t> ended_ns;
  /// UTC minus CLOCK_MONOTONIC as used for every time of this node. Two nodes with one boot_id share a
  /// clock: their times differ by the difference of these offsets, exactly.
  int64_t clock_offset_ns = 0;
  std::string missing_evidence;  // keys_of() the EvidenceKinds that this node can't record; empty: none, or unknown
};

/// A traced process. Upserted by (node_id, pid, start_ns).
struct Process {
  NodeId node_id = 0;
  int32_t pid = 0;
  int64_t start_ns = 0;
  std::string exe;
  std::string cmdline;
  std::optional<int32_t> rank;  // in the whole job
  RankSource rank_source = RankSource::kUnknown;
  std::optional<int32_t> local_rank;
  std::optional<int32_t> world_size;
  std::string job_id;
  uint64_t cgroup_id = 0;
  uint64_t netns = 0;
  std::optional<int64_t> exit_ns;
  std::optional<int32_t> exit_code;
  std::optional<int32_t> exit_signal;
  bool oom_killed = false;  // the kernel ended it for want of memory
};

/// A communicator as one rank holds it. Upserted by (node_id, pid, comm_ptr, created_ns).
struct Communicator {
  NodeId node_id = 0;
  int32_t pid = 0;
  uint64_t comm_ptr = 0;
  CommHash comm_id_hash = 0;
  CommHash nccl_comm_hash = 0;
  std::optional<int32_t> rank;
  RankSource rank_source = RankSource::kUnknown;
  std::optional<int32_t> nranks;
  CommHash parent_hash = 0;
  std::optional<int32_t> split_color;
  std::optional<int32_t> split_key;
  int64_t created_ns = 0;  // first seen, for one made before tracing began
  std::optional<int64_t> destroyed_ns;
};

/// One call by one rank. Upserted by event_id: first at entry (completion open), again when more is known.
struct Collective {
  EventId event_id = 0;
  NodeId node_id = 0;
  Library library = Library::kNccl;
  Operation op = Operation::kAllReduce;
  /// Arrival: entry of the call, or of the outermost ncclGroupEnd for a call inside a group.
  int64_t timestamp_ns = 0;
  std::optional<int64_t> duration_ns;  // arrival to completion, the best known; none while open
  std::optional<int64_t> launch_ns;    // the CPU-side call alone; none while it has not returned
  Completion completion = Completion::kOpen;
  /// n-th collective of this rank on this communicator, from 0. For Send/Recv the n-th to or from that peer.
  std::optional<int64_t> seq;
  std::optional<int32_t> rank;  // in the communicator, or the job's where rank_source is environment
  RankSource rank_source = RankSource::kUnknown;
  std::optional<int32_t> nranks;
  CommHash comm_id_hash = 0;
  uint64_t comm_ptr = 0;
  int32_t pid = 0;
  int32_t tid = 0;
  uint64_t cgroup_id = 0;
  std::optional<int64_t> count;     // elements, as passed
  std::optional<int32_t> datatype;  // the library's own number
  int64_t bytes = 0;                // payload_bytes
  std::optional<int32_t> reduce_op;
  std::optional<int32_t> root;
  std::optional<int32_t> peer;
  uint64_t stream = 0;
  uint64_t group_id = 0;  // 0: not in a group
  std::optional<int32_t> return_code;
  int64_t stack_id = 0;
  int64_t called_ns = 0;  // entry of the call itself; differs from timestamp_ns inside a group

  /// Completion time; none while open, or where it is not told.
  [[nodiscard]] std::optional<int64_t> end_ns() const {
    return duration_ns ? std::optional(timestamp_ns + *duration_ns) : std::nullopt;
  }
  /// The newest time that is known of it; none while it is open. Of one whose end is not told, the launch's end.
  [[nodiscard]] std::optional<int64_t> settled_ns() const {
    return completion == Completion::kUnobserved ? std::optional(timestamp_ns + launch_ns.value_or(0)) : end_ns();
  }
};

/// IPv4 addresses are held in their dotted form, IPv6 in RFC 5952's.
struct Endpoint {
  std::string address;
  uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
  auto operator<=>(const Endpoint&) const = default;
};

/// "10.77.0.2:40112", "[fe80::1]:22"
std::string format_endpoint(const Endpoint& endpoint);

/// A TCP connection as one end sees it. Upserted by (node_id, cookie).
struct Connection {
  NodeId node_id = 0;
  uint64_t cookie = 0;
  int32_t pid = 0;  // the owner
  uint64_t netns = 0;
  int32_t family = 0;  // AF_INET 2, AF_INET6 10
  Endpoint source;
  Endpoint destination;
  int64_t opened_ns = 0;  // first seen, for one opened before tracing began
  std::optional<int64_t> closed_ns;
  std::optional<int32_t> rank;
  std::optional<int32_t> peer_rank;
  std::string thread_name;         // last thread that sent or received, as the kernel names it
  CommHash comm_id_hash = 0;       // the communicator whose data it carries
  std::optional<int32_t> channel;  // of that communicator
};

enum class TcpEventKind : uint8_t {
  kRetransmit,       // "tcp_retransmit_skb"
  kCongestionState,  // "tcp_cong_state_set": state 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss
  kResetSent,        // "tcp_send_reset"
  kResetReceived,    // "tcp_receive_reset"
  kConnect,          // "connect": established by us
  kAccept,           // "accept": established by the peer
  kClose,            // "close"
  kSocketError,      // "socket_error": state holds the errno
  kConnectFailed,    // "connect_failed": SYN_SENT to CLOSE; state holds the errno
};
std::string_view to_text(TcpEventKind kind);
std::optional<TcpEventKind> tcp_event_kind_from_text(std::string_view text);

/// Something that happened on a connection, attributed to the owner of its socket.
struct TcpEvent {
  EventId event_id = 0;
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  TcpEventKind event = TcpEventKind::kRetransmit;
  int32_t pid = 0;
  std::optional<int32_t> rank;
  uint64_t cookie = 0;
  Endpoint source;
  Endpoint destination;
  uint32_t seq = 0;  // first sequence number of the segment; 0 where there is none
  uint32_t len = 0;  // payload bytes of the segment
  int32_t state = 0;
  uint64_t cgroup_id = 0;
};

/// The kernel's view of one connection at one moment (struct tcp_sock). Counters are cumulative.
struct TcpSample {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  uint64_t cookie = 0;
  int32_t pid = 0;
  uint32_t srtt_us = 0;
  uint32_t cwnd = 0;         // packets
  uint32_t packets_out = 0;  // sent, not acknowledged
  uint32_t retrans_out = 0;
  uint32_t lost_out = 0;
  uint32_t total_retrans = 0;
  uint32_t dsack_dups = 0;  // retransmits the peer reported as needless
  uint32_t mss = 0;
  uint64_t bytes_acked = 0;
  uint64_t bytes_received = 0;
  uint32_t unacked_bytes = 0;  // snd_nxt - snd_una
  uint32_t notsent_bytes = 0;  // write_seq - snd_nxt
  uint32_t unread_bytes = 0;   // rcv_nxt - copied_seq: arrived, not yet read by the process
  uint32_t snd_wnd = 0;
  uint32_t rcv_wnd = 0;
  uint64_t busy_ns = 0;  // includes the other two
  uint64_t receiver_limited_ns = 0;
  uint64_t sndbuf_limited_ns = 0;
  uint8_t ca_state = 0;     // as in TcpEvent::state
  uint8_t retransmits = 0;  // icsk_retransmits: timeouts in a row
  uint8_t backoff = 0;
  uint8_t tcp_state = 0;  // TCP_ESTABLISHED 1, ...
};

/// A burst of sends or receives on one connection: no gap inside it longer than the tracer's span gap.
struct NetSpan {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  int64_t duration_ns = 0;
  uint64_t cookie = 0;
  int32_t pid = 0;
  int32_t tid = 0;  // last thread
  bool is_send = false;
  uint64_t bytes = 0;
  uint32_t calls = 0;
};

enum class WaitKind : uint8_t {
  kRunnable,  // ready, but something else ran
  kBlocked,   // interruptible sleep
  kDisk,      // uninterruptible sleep, for block I/O
  kStopped,   // stopped or traced
  kOnCpu,     // running: not a wait, but what a late rank did
};
std::string_view to_text(WaitKind kind);
std::optional<WaitKind> wait_kind_from_text(std::string_view text);

/// What one thread did with [timestamp_ns, timestamp_ns + window_ns): `waited_ns` of it was spent in `kind`,
/// over `count` occasions. A single long wait has count 1 and waited_ns == window_ns.
struct WaitSpan {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  int64_t window_ns = 0;
  int64_t waited_ns = 0;
  bool open = false;  // had not ended when last seen
  uint32_t count = 1;
  WaitKind kind = WaitKind::kBlocked;
  int32_t pid = 0;
  int32_t tid = 0;
  std::string thread_name;
  int32_t by_pid = 0;  // kRunnable: who ran instead (the one that ran longest); 0 unknown
  std::string by_name;
  int64_t by_waited_ns = 0;  // at least so much of waited_ns is due to by_pid
};

/// What a proxy operation's step waited for when last seen.
enum class ProxyWait : uint8_t {
  kNone,     // nothing, or not told
  kGpu,      // the GPU: data to send, or room to receive into
  kPeer,     // the receiver's readiness: no room announced yet
  kNetwork,  // the transfer itself
};
/// "" (none), "gpu", "peer", "network"
std::string_view to_text(ProxyWait wait);
std::optional<ProxyWait> proxy_wait_from_text(std::string_view text);

/// Steps of one proxy operation of NCCL: chunks to or from one peer on one channel, as the profiler plugin tells them
/// (docs/profiler_file.md). A row sums `steps` steps in a row, 1 where each was kept by itself.
struct ProxyStep {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  std::optional<int64_t> duration_ns;  // none while open
  EventId collective_id = 0;           // the collective or point-to-point it is part of; 0 unknown
  CommHash comm_id_hash = 0;
  int32_t pid = 0;
  int32_t tid = 0;
  std::optional<int32_t> rank;  // in the communicator, as is the peer
  std::optional<int32_t> peer;
  int32_t channel = 0;
  bool is_send = false;
  int32_t step = 0;  // the first of them, from 0
  uint32_t steps = 1;
  uint64_t bytes = 0;
  int64_t gpu_wait_ns = 0;
  int64_t peer_wait_ns = 0;
  int64_t network_wait_ns = 0;
  ProxyWait waits_for = ProxyWait::kNone;  // while open
};

/// Packets of one connection that a host dropped for one reason, summed over a short time.
struct PacketDrop {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;  // of the first
  int64_t duration_ns = 0;   // from the first to the last
  uint64_t cookie = 0;
  int32_t pid = 0;        // the connection's owner
  bool incoming = false;  // on the way to the owner; else from it
  uint64_t netns = 0;     // where they were dropped
  std::string reason;     // the kernel's (enum skb_drop_reason), without its prefix: "NETFILTER_DROP"
  uint32_t packets = 0;   // as the kernel held them: one may hold several segments
  uint64_t bytes = 0;     // with headers
};

/// A number about the host, cumulative unless its name ends in "_now".
struct HostSample {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  std::string name;
  std::string detail;  // interface, CPU, cgroup; may be empty
  double value = 0;
};

/// An InfiniBand or RoCE port counter.
struct PortCounter {
  NodeId node_id = 0;
  int64_t timestamp_ns = 0;
  std::string device;
  int32_t port = 0;
  std::string name;
  uint64_t value = 0;
};

struct Stack {
  int64_t stack_id = 0;
  std::string frames;  // one frame a line, innermost first
};

/// Events that could not be kept, by source ("ring:collective", "store:disk_full", ...). Cumulative; upserted.
struct Loss {
  NodeId node_id = 0;
  std::string source;
  uint64_t count = 0;
};

using Event = std::variant<Node, Process, Communicator, Collective, Connection, TcpEvent, TcpSample, NetSpan, WaitSpan,
                           ProxyStep, PacketDrop, HostSample, PortCounter, Stack, Loss>;

/// Where capture delivers. Implementations say which thread may call.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void accept(Event event) = 0;
};

}  // namespace stalltrace
