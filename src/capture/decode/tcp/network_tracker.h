// SPDX-License-Identifier: Apache-2.0
// TCP records → rows of `connection`, `tcp_events`, `tcp_sample` and `net_span`. Pure except for thread names and a
// process's communicators, which it asks its owner for. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "capture/decode/tcp/comm_ranks.h"
#include "capture/decode/tcp/socket_attribution.h"
#include "capture/user_shares.h"
#include "model/event_ids.h"
#include "model/events.h"
#include "model/process_registry.h"
#include "wire/tcp.h"

namespace stalltrace::capture {

/// Facts about a communicator besides NCCL's own hash.
struct CommunicatorInfo {
  CommHash hash = 0;     // our hash; 0 unknown
  bool is_part = false;  // made from another communicator
  int32_t nodes = 0;     // hosts of its ranks, as counted by NCCL; 0 unknown
};

class NetworkTracker {
 public:
  using ThreadName = std::function<std::string(int32_t pid, int32_t tid)>;
  /// Facts about a process's communicator, by NCCL's own hash.
  using CommunicatorOfHash = std::function<CommunicatorInfo(int32_t pid, uint64_t nccl_comm_hash)>;

  /// All references must outlive the tracker. `ticks_per_second`: rate of the kernel's jiffies, the unit of a
  /// connection's clocks.
  NetworkTracker(EventIds& ids, ProcessRegistry& processes, UserShares& shares, EventSink& sink, int64_t utc_offset_ns,
                 int64_t ticks_per_second, ThreadName thread_name, CommunicatorOfHash communicator_of_hash);

  void on_socket(const st_socket_seen& record);
  void on_listing(const st_socket_listing& record);
  void on_event(const st_tcp_event& record);
  void on_sample(const st_tcp_sample& record);
  void on_span(const st_net_span& record);
  void on_step_mark(const st_step_mark& record);
  /// Before the process's user is forgotten.
  void on_exit(int32_t pid, uint64_t now_ns);
  /// Completes connections whose communicator was proven before all facts about it were known.
  void complete_attributed();

  [[nodiscard]] uint64_t retransmits() const { return retransmits_; }

 private:
  [[nodiscard]] int64_t utc(uint64_t monotonic_ns) const { return static_cast<int64_t>(monotonic_ns) + utc_offset_ns_; }
  /// Null where the process or its user has too many: what happens to that connection is not recorded.
  Connection* connection_of(uint64_t cookie, const st_header& header, const st_tuple& tuple);
  Connection* add_connection(uint64_t cookie, const st_header& header);
  void change_owner(Connection& connection, int32_t pid);
  void forget_closed(uint64_t now_ns);
  void forget(uint64_t cookie);
  void update_attribution(Connection& connection);
  void fill_in(Connection& connection, const CommSocket& comm_socket);
  std::optional<int32_t> peer_rank(const Connection& connection, const CommSocket& comm_socket,
                                   const CommunicatorInfo& facts);
  [[nodiscard]] std::optional<CommSocket> comm_socket_of(const Connection& connection) const;
  /// Asks at most once a second per thread, since threads of a process may take turns on a connection.
  const std::string& thread_name(int32_t pid, int32_t tid, uint64_t now_ns);
  void deliver_sample(const st_header& header, uint64_t cookie, const st_tcp_metrics& metrics);

  EventIds& ids_;
  ProcessRegistry& processes_;
  UserShares& shares_;
  EventSink& sink_;
  int64_t utc_offset_ns_;
  int64_t ns_per_tick_;
  ThreadName thread_name_;
  CommunicatorOfHash communicator_of_hash_;
  SocketAttribution attribution_;
  std::map<uint32_t, CommRankMap> ranks_;  // by user: no user disputes what another's processes state
  uint64_t retransmits_ = 0;
  std::unordered_map<uint64_t, Connection> connections_;
  std::unordered_map<int32_t, std::set<uint64_t>> cookies_;  // by process
  std::unordered_map<uint64_t, int32_t> last_thread_;        // cookie → tid
  struct NamedThread {
    std::string name;
    uint64_t read_ns = 0;  // CLOCK_MONOTONIC
  };
  std::map<std::pair<int32_t, int32_t>, NamedThread> threads_;  // by pid and tid
  std::unordered_map<uint64_t, CommSocket> delivered_;          // attributions already delivered in rows, by cookie
  /// By cookie: the communicator that it was attributed to, by NCCL's own hash; 0 where several were.
  std::unordered_map<uint64_t, uint64_t> only_communicator_;
  struct Listing {
    uint64_t time_ns = 0;
    st_tcp_metrics metrics{};
  };
  std::unordered_map<uint64_t, Listing> last_listing_;  // the last one that became a sample, by cookie
  std::deque<std::pair<uint64_t, uint64_t>> closed_;    // time of the close, cookie
  std::deque<std::pair<uint64_t, uint64_t>> left_;      // time of the end of the process, cookie
};

/// An address as text: dotted, or RFC 5952's form for IPv6; an IPv4 address mapped into IPv6 is dotted.
std::string address_text(const uint8_t (&bytes)[16], uint16_t family);

}  // namespace stalltrace::capture
