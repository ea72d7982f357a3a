// SPDX-License-Identifier: Apache-2.0
// The records of the BPF programs → events: one decoder per family, and the state they share. Some events reach the
// sink only when later records have completed them. One thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "blackbox/follow/follower.h"
#include "blackbox/pairing/call_pairing.h"
#include "capture/decode/call_stacks.h"
#include "capture/decode/collective/collective_tracker.h"
#include "capture/decode/competitors.h"
#include "capture/decode/tcp/network_tracker.h"
#include "capture/python/python_exceptions.h"
#include "capture/user_shares.h"
#include "model/event_ids.h"
#include "model/events.h"
#include "model/process_registry.h"
#include "wire/scheduler.h"
#include "wire/tcp.h"

namespace stalltrace::capture {

class RecordDecoder {
 public:
  struct Options {
    int64_t ticks_per_second = 0;  // of the kernel's jiffies
    blackbox::ProfilerFileFinder::Scope profiler_files;
    std::function<void(pid_t, uint32_t user)> on_call;  // called before discovery found the process
    std::function<void(const std::string&)> report;     // reports failures
  };

  /// All references must outlive the decoder.
  RecordDecoder(const Node& node, const Procfs& procfs, EventSink& sink, Options options);

  /// `bytes`: one record as it came out of a ring.
  void decode(std::span<const std::byte> bytes);
  void decode(const st_socket_listing& listing) { network_.on_listing(listing); }

  /// The processes whose end was decoded since the last call. Other rings may still hold their records: decode those
  /// before calling end_process().
  std::vector<st_exit> take_exits();
  /// A process's end record can overtake the record of its first call, since they come by different rings.
  [[nodiscard]] bool has_ended(pid_t pid) const;
  [[nodiscard]] bool knows(pid_t pid) const { return processes_.find(pid) != nullptr; }
  /// Whose process it is decides whose share it takes; false where that user has too many: it is not followed then, and
  /// none of its records is decoded.
  bool admit(pid_t pid, uint32_t user, int64_t now_ns, uint64_t start_ticks = 0) {
    return shares_.begin(pid, user, now_ns, start_ticks);
  }
  /// A process that was admitted.
  void begin_process(Process process, Library library, CollectiveTracker::JobIdentity job);
  void end_process(const st_exit& record);
  /// The record of its end was lost; it had ended by `now_ns` (CLOCK_MONOTONIC), how is not known.
  void end_process(pid_t pid, int64_t now_ns);

  /// Delivers events that wait for later records. All records from before `decoded_ns` (CLOCK_MONOTONIC) must have been
  /// decoded.
  void deliver_waiting(int64_t decoded_ns);
  /// The same at the end, when no record will follow.
  void finish(int64_t decoded_ns);
  /// Reads what ran instead of traced threads; to be called whenever the rings are empty. `between`: as Competitors.
  void read_competitors(int64_t now_ns, const std::function<void()>& between) { competitors_.read(now_ns, between); }
  /// Delivers losses of the profiler files, and the count of records that could not be decoded.
  void deliver_losses();

  [[nodiscard]] bool is_followed(pid_t pid) const { return shares_.is_followed(pid); }
  [[nodiscard]] uint32_t user_of(pid_t pid) const { return shares_.user_of(pid); }
  [[nodiscard]] std::vector<CallStanding> standings() const { return collectives_.standings(); }
  [[nodiscard]] size_t processes() const { return processes_.size(); }
  [[nodiscard]] uint64_t calls() const { return collectives_.calls(); }
  [[nodiscard]] uint64_t retransmits() const { return network_.retransmits(); }
  /// Number of records that could not be decoded.
  [[nodiscard]] uint64_t malformed() const { return malformed_; }

 private:
  [[nodiscard]] CommunicatorInfo communicator_info(int32_t pid, uint64_t nccl_comm_hash) const;
  void note_stack(const st_call_stack& record);
  void note_wait(const st_wait& record);
  void end(pid_t pid, uint64_t end_ns, std::optional<int32_t> exit_code);

  const Node& node_;
  EventSink& sink_;
  std::function<void(pid_t, uint32_t)> on_call_;
  EventIds ids_;
  ProcessRegistry processes_;
  UserShares shares_;
  blackbox::CallPairing pairing_;
  CollectiveTracker collectives_;
  blackbox::ProfilerFollower profiler_files_;
  NetworkTracker network_;
  CallStacks stacks_;
  PythonExceptions exceptions_;
  Competitors competitors_;
  std::vector<st_exit> exits_;
  uint64_t malformed_ = 0;
};

}  // namespace stalltrace::capture
