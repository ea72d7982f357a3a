// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/tcp/network_tracker.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cstring>

#include "base/clock.h"

namespace stalltrace::capture {
namespace {

constexpr uint64_t kKnownAfterCloseNs = 5ULL * kNsPerSecond;
constexpr uint64_t kKnownAfterExitNs = 60ULL * kNsPerSecond;  // as the process itself
/// Sample interval of a connection without any activity.
constexpr uint64_t kUnchangedNs = 5ULL * kNsPerSecond;
constexpr size_t kThreadsKept = 16'384;
constexpr size_t kUsersKept = 1024;
/// NCCL's "NCCL SockS..." and "NCCL SockR..."
constexpr std::string_view kHelperThreads = "NCCL Sock";

}  // namespace

std::string address_text(const uint8_t (&bytes)[16], uint16_t family) {
  static constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  char text[INET6_ADDRSTRLEN] = {};
  if (family == AF_INET6 && std::memcmp(bytes, kMappedPrefix, sizeof kMappedPrefix) == 0) {
    inet_ntop(AF_INET, bytes + sizeof kMappedPrefix, text, sizeof text);
  } else {
    inet_ntop(family, bytes, text, sizeof text);
  }
  return text;
}

NetworkTracker::NetworkTracker(EventIds& ids, ProcessRegistry& processes, UserShares& shares, EventSink& sink,
                               int64_t utc_offset_ns, int64_t ticks_per_second, ThreadName thread_name,
                               CommunicatorOfHash communicator_of_hash)
    : ids_(ids),
      processes_(processes),
      shares_(shares),
      sink_(sink),
      utc_offset_ns_(utc_offset_ns),
      ns_per_tick_(kNsPerSecond / ticks_per_second),
      thread_name_(std::move(thread_name)),
      communicator_of_hash_(std::move(communicator_of_hash)),
      attribution_(shares) {}

Connection* NetworkTracker::add_connection(uint64_t cookie, const st_header& header) {
  const auto pid = static_cast<int32_t>(header.tgid);
  if (!shares_.take(pid, UserShares::Kind::kConnection, static_cast<int64_t>(header.time_ns))) {
    return nullptr;
  }
  cookies_[pid].insert(cookie);
  Connection& connection = connections_[cookie];
  connection.node_id = ids_.node();
  connection.cookie = cookie;
  connection.pid = pid;
  connection.opened_ns = utc(header.time_ns);
  return &connection;
}

/// A process may hand a socket to another.
void NetworkTracker::change_owner(Connection& connection, int32_t pid) {
  if (connection.pid == pid) {
    return;
  }
  shares_.give_back(connection.pid, UserShares::Kind::kConnection);
  if (const auto owned = cookies_.find(connection.pid); owned != cookies_.end()) {
    owned->second.erase(connection.cookie);
    if (owned->second.empty()) {
      cookies_.erase(owned);
    }
  }
  connection.pid = pid;
  cookies_[pid].insert(connection.cookie);
  (void)shares_.take(pid, UserShares::Kind::kConnection);
}

Connection* NetworkTracker::connection_of(uint64_t cookie, const st_header& header, const st_tuple& tuple) {
  const auto found = connections_.find(cookie);
  const bool fresh = found == connections_.end();
  Connection* known = fresh ? add_connection(cookie, header) : &found->second;
  if (known == nullptr) {
    return nullptr;
  }
  Connection& connection = *known;
  change_owner(connection, static_cast<int32_t>(header.tgid));
  connection.rank = processes_.rank_of(connection.pid);
  connection.netns = tuple.netns;
  connection.family = tuple.family;
  if (fresh || tuple.source_port != 0) {  // a socket has no local port before it is bound and after it has closed
    connection.source = {address_text(tuple.source, tuple.family), tuple.source_port};
  }
  connection.destination = {address_text(tuple.destination, tuple.family), tuple.destination_port};
  return known;
}

void NetworkTracker::on_socket(const st_socket_seen& record) {
  Connection* known = connection_of(record.cookie, record.header, record.tuple);
  if (known == nullptr) {
    return;
  }
  Connection& connection = *known;
  connection.thread_name.assign(record.thread_name, strnlen(record.thread_name, sizeof record.thread_name));
  last_thread_[record.cookie] = static_cast<int32_t>(record.header.tid);
  sink_.accept(connection);
}

void NetworkTracker::on_listing(const st_socket_listing& record) {
  const auto known = connections_.find(record.cookie);
  if (known == connections_.end()) {
    const Connection* connection = connection_of(record.cookie, record.header, record.tuple);
    if (connection == nullptr) {
      return;
    }
    sink_.accept(*connection);
  } else {
    update_attribution(known->second);
  }
  // Silent connections are many, and each is listed four times a second: only a change is worth a row.
  Listing& last = last_listing_[record.cookie];
  const bool same = last.time_ns != 0 && std::memcmp(&last.metrics, &record.metrics, sizeof last.metrics) == 0;
  if (same && record.header.time_ns < last.time_ns + kUnchangedNs) {
    return;
  }
  last = {record.header.time_ns, record.metrics};
  deliver_sample(record.header, record.cookie, record.metrics);
}

static_assert(static_cast<int>(TcpEventKind::kRetransmit) == ST_TCP_RETRANSMIT);
static_assert(static_cast<int>(TcpEventKind::kCongestionState) == ST_TCP_CONGESTION_STATE);
static_assert(static_cast<int>(TcpEventKind::kResetSent) == ST_TCP_RESET_SENT);
static_assert(static_cast<int>(TcpEventKind::kResetReceived) == ST_TCP_RESET_RECEIVED);
static_assert(static_cast<int>(TcpEventKind::kConnect) == ST_TCP_CONNECT);
static_assert(static_cast<int>(TcpEventKind::kAccept) == ST_TCP_ACCEPT);
static_assert(static_cast<int>(TcpEventKind::kClose) == ST_TCP_CLOSE);
static_assert(static_cast<int>(TcpEventKind::kSocketError) == ST_TCP_SOCKET_ERROR);
static_assert(static_cast<int>(TcpEventKind::kConnectFailed) == ST_TCP_CONNECT_FAILED);

void NetworkTracker::on_event(const st_tcp_event& record) {
  const auto kind = static_cast<TcpEventKind>(record.kind);
  Connection* known = connection_of(record.cookie, record.header, record.tuple);
  if (known == nullptr) {
    return;
  }
  Connection& connection = *known;
  TcpEvent event;
  event.event_id = ids_.next();
  event.node_id = ids_.node();
  event.timestamp_ns = utc(record.header.time_ns);
  event.event = kind;
  event.pid = connection.pid;
  event.rank = connection.rank;
  event.cookie = record.cookie;
  event.source = connection.source;
  event.destination = connection.destination;
  event.seq = record.sequence;
  event.len = record.length;
  event.state = record.state;
  event.cgroup_id = record.cgroup_id;
  sink_.accept(std::move(event));
  retransmits_ += kind == TcpEventKind::kRetransmit;
  if (kind == TcpEventKind::kConnect || kind == TcpEventKind::kAccept) {
    sink_.accept(connection);  // now with the local address and port that the kernel chose
  } else if (kind == TcpEventKind::kClose || kind == TcpEventKind::kConnectFailed) {
    update_attribution(connection);
    connection.closed_ns = utc(record.header.time_ns);
    sink_.accept(connection);
    closed_.emplace_back(record.header.time_ns, record.cookie);
  }
  forget_closed(record.header.time_ns);
}

/// The error or reset of a socket may be reported after its close, so it stays known for a while; that of a process
/// that has ended, for as long as the process.
void NetworkTracker::forget_closed(uint64_t now_ns) {
  for (auto [queue, kept_ns] : {std::pair(&closed_, kKnownAfterCloseNs), std::pair(&left_, kKnownAfterExitNs)}) {
    while (!queue->empty() && queue->front().first + kept_ns < now_ns) {
      forget(queue->front().second);
      queue->pop_front();
    }
  }
}

void NetworkTracker::forget(uint64_t cookie) {
  const auto known = connections_.find(cookie);
  if (known == connections_.end()) {
    return;
  }
  const int32_t pid = known->second.pid;
  shares_.give_back(pid, UserShares::Kind::kConnection);
  if (const auto owned = cookies_.find(pid); owned != cookies_.end()) {
    owned->second.erase(cookie);
    if (owned->second.empty()) {
      cookies_.erase(owned);
    }
  }
  connections_.erase(known);
  last_thread_.erase(cookie);
  last_listing_.erase(cookie);
  delivered_.erase(cookie);
  only_communicator_.erase(cookie);
  attribution_.forget_connection(cookie);
}

void NetworkTracker::deliver_sample(const st_header& header, uint64_t cookie, const st_tcp_metrics& metrics) {
  TcpSample sample;
  sample.node_id = ids_.node();
  sample.timestamp_ns = utc(header.time_ns);
  sample.cookie = cookie;
  sample.pid = static_cast<int32_t>(header.tgid);
  sample.srtt_us = metrics.srtt_us;
  sample.cwnd = metrics.cwnd;
  sample.packets_out = metrics.packets_out;
  sample.retrans_out = metrics.retrans_out;
  sample.lost_out = metrics.lost_out;
  sample.total_retrans = metrics.total_retrans;
  sample.dsack_dups = metrics.dsack_dups;
  sample.mss = metrics.mss;
  sample.bytes_acked = metrics.bytes_acked;
  sample.bytes_received = metrics.bytes_received;
  sample.unacked_bytes = metrics.unacked_bytes;
  sample.notsent_bytes = metrics.notsent_bytes;
  sample.unread_bytes = metrics.unread_bytes;
  sample.snd_wnd = metrics.snd_wnd;
  sample.rcv_wnd = metrics.rcv_wnd;
  const auto ticks = [this](uint32_t count) { return count * static_cast<uint64_t>(ns_per_tick_); };
  sample.busy_ns = ticks(metrics.busy_jiffies);
  sample.receiver_limited_ns = ticks(metrics.receiver_limited_jiffies);
  sample.sndbuf_limited_ns = ticks(metrics.sndbuf_limited_jiffies);
  sample.ca_state = metrics.ca_state;
  sample.retransmits = metrics.retransmits;
  sample.backoff = metrics.backoff;
  sample.tcp_state = metrics.tcp_state;
  sink_.accept(std::move(sample));
}

void NetworkTracker::on_sample(const st_tcp_sample& record) {
  deliver_sample(record.header, record.cookie, record.metrics);
}

void NetworkTracker::on_step_mark(const st_step_mark& record) {
  if (record.step.size != sizeof record.step || record.step.version != ST_MARKER_VERSION) {
    return;
  }
  const auto pid = static_cast<int32_t>(record.header.tgid);
  const uint32_t user = shares_.user_of(pid);
  if (ranks_.size() < kUsersKept || ranks_.contains(user)) {
    ranks_[user].member(record.step.comm_hash, record.step.rank, pid);
  }
  // A mark of a connection that nothing else is known of proves nothing, and would be kept until that connection ends.
  if (!connections_.contains(record.last.cookie) || !attribution_.on_mark(record)) {
    return;
  }
  if (const auto comm_socket = attribution_.comm_socket_of(record.last.cookie)) {
    processes_.learn_rank(comm_socket->pid, comm_socket->rank, comm_socket->ranks, RankSource::kPlugin);
  }
  if (const auto connection = connections_.find(record.last.cookie); connection != connections_.end()) {
    update_attribution(connection->second);
  }
}

const std::string& NetworkTracker::thread_name(int32_t pid, int32_t tid, uint64_t now_ns) {
  if (threads_.size() >= kThreadsKept) {
    threads_.clear();
  }
  NamedThread& thread = threads_[{pid, tid}];
  if (thread.name.empty() || now_ns >= thread.read_ns + kNsPerSecond) {
    thread = {.name = thread_name_(pid, tid), .read_ns = now_ns};
  }
  return thread.name;
}

void NetworkTracker::on_exit(int32_t pid, uint64_t now_ns) {
  threads_.erase(threads_.lower_bound({pid, 0}), threads_.lower_bound({pid + 1, 0}));
  attribution_.forget_process(pid);
  if (const auto ranks = ranks_.find(shares_.user_of(pid)); ranks != ranks_.end()) {
    ranks->second.forget_process(pid);
    if (ranks->second.empty()) {
      ranks_.erase(ranks);
    }
  }
  if (const auto owned = cookies_.find(pid); owned != cookies_.end()) {
    for (const uint64_t cookie : owned->second) {
      left_.emplace_back(now_ns, cookie);
    }
  }
  forget_closed(now_ns);
}

/// The socket's own attribution; or that of its group where NCCL's helper threads move its data. All sockets of one
/// NCCL connection share the receiver's port, which belongs to a listener of its own.
std::optional<CommSocket> NetworkTracker::comm_socket_of(const Connection& connection) const {
  if (auto own = attribution_.comm_socket_of(connection.cookie);
      own || attribution_.is_shared(connection.cookie) || !connection.thread_name.starts_with(kHelperThreads)) {
    return own;
  }
  std::optional<CommSocket> shared;
  const auto owned = cookies_.find(connection.pid);
  if (owned == cookies_.end()) {
    return std::nullopt;
  }
  for (const uint64_t cookie : owned->second) {
    const auto comm_socket = attribution_.comm_socket_of(cookie);
    const Connection& other = connections_.at(cookie);
    const bool is_shared = attribution_.is_shared(cookie);
    if ((!comm_socket && !is_shared) || other.netns != connection.netns ||
        (!comm_socket           ? other.destination != connection.destination && other.source != connection.source
         : comm_socket->is_send ? other.destination != connection.destination
                                : other.source != connection.source)) {
      continue;
    }
    if (is_shared || (shared && *shared != *comm_socket)) {
      return std::nullopt;
    }
    shared = comm_socket;
  }
  return shared;
}

/// Updates the attribution in the connection's row.
void NetworkTracker::update_attribution(Connection& connection) {
  const auto comm_socket = comm_socket_of(connection);
  const auto delivered = delivered_.find(connection.cookie);
  if (comm_socket) {
    uint64_t& only = only_communicator_.try_emplace(connection.cookie, comm_socket->nccl_comm_hash).first->second;
    only = only == comm_socket->nccl_comm_hash ? only : 0;
    if (delivered != delivered_.end() && delivered->second != *comm_socket) {
      connection.peer_rank.reset();
      connection.channel.reset();
      connection.comm_id_hash = 0;
    }
    delivered_.insert_or_assign(connection.cookie, *comm_socket);
    fill_in(connection, *comm_socket);
  } else if (delivered != delivered_.end()) {
    delivered_.erase(delivered);
    connection.peer_rank.reset();
    connection.channel.reset();
    connection.comm_id_hash = 0;
    sink_.accept(connection);
  }
}

/// Known values are kept even when their source has dropped them.
void NetworkTracker::fill_in(Connection& connection, const CommSocket& comm_socket) {
  const CommunicatorInfo facts = communicator_of_hash_(comm_socket.pid, comm_socket.nccl_comm_hash);
  Connection now = connection;
  now.channel = comm_socket.channel;
  if (facts.hash != 0 || now.comm_id_hash == 0) {
    now.comm_id_hash = facts.hash != 0 ? facts.hash : comm_socket.nccl_comm_hash;
  }
  if (const auto only = only_communicator_.find(connection.cookie);
      only != only_communicator_.end() && only->second == 0) {
    now.comm_id_hash = 0;  // a split may share the connections of its parent
  }
  if (const auto peer = peer_rank(connection, comm_socket, facts)) {
    now.peer_rank = peer;
  }
  if (now.peer_rank != connection.peer_rank || now.channel != connection.channel ||
      now.comm_id_hash != connection.comm_id_hash) {
    connection = std::move(now);
    sink_.accept(connection);
  }
}

/// Translates a sub-communicator's rank to a rank of the job, where this host can.
std::optional<int32_t> NetworkTracker::peer_rank(const Connection& connection, const CommSocket& comm_socket,
                                                 const CommunicatorInfo& facts) {
  const Process* process = processes_.find(comm_socket.pid);
  if (!process) {
    return std::nullopt;
  }
  const std::string& address = connection.destination.address;
  CommRankMap& ranks = ranks_[shares_.user_of(comm_socket.pid)];
  if (!facts.is_part && process->rank == comm_socket.rank && process->world_size == comm_socket.ranks) {
    ranks.world(comm_socket.pid, comm_socket.nccl_comm_hash);
    if (facts.nodes == comm_socket.ranks) {
      ranks.host(comm_socket.nccl_comm_hash, address, comm_socket.peer);
    }
    return comm_socket.peer;
  }
  const auto member = ranks.process_of(comm_socket.nccl_comm_hash, comm_socket.peer);
  const Process* peer = member ? processes_.find(*member) : nullptr;
  if (peer && peer->rank && peer->world_size == process->world_size) {
    return peer->rank;
  }
  const auto world = ranks.world_of(comm_socket.pid);
  return world ? ranks.rank_at(*world, address) : std::nullopt;
}

void NetworkTracker::complete_attributed() {
  for (const auto& [cookie, comm_socket] : delivered_) {
    const auto found = connections_.find(cookie);
    if (found != connections_.end() &&
        (!found->second.peer_rank || found->second.comm_id_hash == comm_socket.nccl_comm_hash)) {
      fill_in(found->second, comm_socket);
    }
  }
}

void NetworkTracker::on_span(const st_net_span& record) {
  NetSpan span;
  span.node_id = ids_.node();
  span.timestamp_ns = utc(record.header.time_ns);
  span.duration_ns = static_cast<int64_t>(record.end_ns - record.header.time_ns);
  span.cookie = record.cookie;
  span.pid = static_cast<int32_t>(record.header.tgid);
  span.tid = static_cast<int32_t>(record.header.tid);
  span.is_send = record.is_send != 0;
  span.bytes = record.bytes;
  span.calls = record.calls;
  const int32_t tid = span.tid;
  const auto connection = connections_.find(record.cookie);
  if (connection != connections_.end()) {
    int32_t& last = last_thread_[record.cookie];
    if (last != tid || connection->second.thread_name.empty()) {
      last = tid;
      const std::string& name = thread_name(span.pid, tid, record.end_ns);
      if (!name.empty() && name != connection->second.thread_name) {
        connection->second.thread_name = name;
        sink_.accept(connection->second);
      }
    }
  }
  sink_.accept(std::move(span));
}

}  // namespace stalltrace::capture
