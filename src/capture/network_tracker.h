// SPDX-License-Identifier: Apache-2.0
// Records of TCP → rows of `connection`, `tcp_events`, `tcp_sample` and `net_span`. Pure but for the names of threads
// and the communicators of a process, which it asks its owner for. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "capture/connection_places.h"
#include "capture/event_ids.h"
#include "capture/process_registry.h"
#include "model/events.h"
#include "wire/tcp.h"

namespace stalltrace::capture {

class NetworkTracker {
 public:
  using ThreadName = std::function<std::string(int32_t pid, int32_t tid)>;
  /// Our hash of a process's communicator, by NCCL's own; 0 where it is not known.
  using CommOfHash = std::function<CommHash(int32_t pid, uint64_t nccl_comm_hash)>;

  /// References outlive the tracker. `ticks_per_second`: of the kernel's jiffies, in which connections keep their
  /// clocks.
  NetworkTracker(EventIds& ids, ProcessRegistry& processes, EventSink& sink, int64_t utc_offset_ns,
                 int64_t ticks_per_second, ThreadName thread_name, CommOfHash comm_of_hash);

  void on_socket(const st_socket_seen& record);
  void on_listing(const st_socket_listing& record);
  void on_event(const st_tcp_event& record);
  void on_sample(const st_tcp_sample& record);
  void on_span(const st_net_span& record);
  void on_step_mark(const st_step_mark& record);
  void on_exit(int32_t pid) { places_.forget_process(pid); }

  [[nodiscard]] uint64_t retransmits() const { return retransmits_; }

 private:
  [[nodiscard]] int64_t utc(uint64_t monotonic_ns) const { return static_cast<int64_t>(monotonic_ns) + utc_offset_ns_; }
  Connection& connection_of(uint64_t cookie, const st_header& header, const st_tuple& tuple);
  void forget(uint64_t cookie);
  void settle(Connection& connection);
  [[nodiscard]] std::optional<ConnectionPlace> place_of(const Connection& connection) const;
  void deliver_sample(const st_header& header, uint64_t cookie, const st_tcp_metrics& metrics);

  EventIds& ids_;
  ProcessRegistry& processes_;
  EventSink& sink_;
  int64_t utc_offset_ns_;
  int64_t ns_per_tick_;
  ThreadName thread_name_;
  CommOfHash comm_of_hash_;
  ConnectionPlaces places_;
  uint64_t retransmits_ = 0;
  std::unordered_map<uint64_t, Connection> connections_;
  std::unordered_map<uint64_t, int32_t> last_thread_;  // cookie → tid
  struct Listing {
    uint64_t time_ns = 0;
    st_tcp_metrics metrics{};
  };
  std::unordered_map<uint64_t, Listing> last_listing_;  // the last one that became a sample, by cookie
  std::deque<std::pair<uint64_t, uint64_t>> closed_;    // time of the close, cookie
};

/// An address as text: dotted, or RFC 5952's form for IPv6; an IPv4 address mapped into IPv6 is dotted.
std::string address_text(const uint8_t (&bytes)[16], uint16_t family);

}  // namespace stalltrace::capture
