// SPDX-License-Identifier: Apache-2.0
// Runs one schedule over its two connections, each time as far as the sockets and the schedule's order allow. Used by
// the proxy thread only; never blocks.
#pragma once

#include <poll.h>

#include <memory>
#include <vector>

#include "links.h"
#include "profiler/profile_proxy.h"
#include "reduce.h"
#include "schedule.h"

namespace lab::nccl {

class Transfer {
 public:
  Transfer(Schedule schedule, Reducer reducer, LinkUse use, int send_peer, int recv_peer);

  /// Attaches a profiler; call it before anything else.
  void follow(std::unique_ptr<TransferEvents> events) { events_ = std::move(events); }
  [[nodiscard]] TransferEvents* events() const { return events_.get(); }
  [[nodiscard]] const Schedule& schedule() const { return schedule_; }

  /// Moves all data that can move now; sets *done when nothing is left, and *moved if any was.
  ncclResult_t advance(Links& links, bool* done, bool* moved);

  /// Adds the sockets that block progress; the links watch connections still being made.
  void add_polls(const Links& links, std::vector<pollfd>* polls) const;

 private:
  [[nodiscard]] bool may_send() const {
    return sent_ < schedule_.sends.size() && schedule_.sends[sent_].after_recvs <= received_;
  }
  [[nodiscard]] bool may_recv() const {
    return received_ < schedule_.recvs.size() && schedule_.recvs[received_].after_sends <= sent_;
  }
  void report_events() {
    if (events_ != nullptr) {
      events_->follow(schedule_, {.sent = sent_, .received = received_, .connected = send_fd_ >= 0});
    }
  }
  ncclResult_t send_more(Links& links, bool* moved_any);
  ncclResult_t recv_more(const Links& links, bool* moved_any);

  Schedule schedule_;
  Reducer reducer_;
  LinkUse use_;
  int send_peer_;
  int recv_peer_;
  bool copied_ = false;
  size_t sent_ = 0;         // steps complete
  size_t send_offset_ = 0;  // bytes of the step under way
  size_t received_ = 0;
  size_t recv_offset_ = 0;
  int send_fd_ = -1;
  std::unique_ptr<TransferEvents> events_;  // null without a profiler
};

}  // namespace lab::nccl
