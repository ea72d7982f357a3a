// SPDX-License-Identifier: Apache-2.0
#include "transfer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "result.h"

namespace lab::nccl {

Transfer::Transfer(Schedule schedule, Reducer reducer, LinkUse use, int send_peer, int recv_peer)
    : schedule_(std::move(schedule)), reducer_(reducer), use_(use), send_peer_(send_peer), recv_peer_(recv_peer) {}

ncclResult_t Transfer::advance(Links& links, bool* done, bool* moved) {
  if (!copied_) {
    if (events_ != nullptr) {
      events_->device_arrived();
    }
    for (const Copy& copy : schedule_.copies) {
      std::memmove(copy.to, copy.from, copy.bytes);
    }
    copied_ = true;
  }
  report_events();
  bool moving = true;
  while (moving) {
    moving = false;
    NCCL_TRY(send_more(links, &moving));
    NCCL_TRY(recv_more(links, &moving));
    *moved = *moved || moving;
  }
  *done = sent_ == schedule_.sends.size() && received_ == schedule_.recvs.size();
  if (*done && events_ != nullptr) {
    events_->end();
  }
  return ncclSuccess;
}

void Transfer::add_polls(const Links& links, std::vector<pollfd>* polls) const {
  if (may_send() && send_fd_ >= 0) {
    polls->push_back({.fd = send_fd_, .events = POLLOUT, .revents = 0});
  }
  if (const int fd = links.incoming(use_, recv_peer_); may_recv() && fd >= 0) {
    polls->push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
}

ncclResult_t Transfer::send_more(Links& links, bool* moved_any) {
  if (send_fd_ < 0 && sent_ < schedule_.sends.size()) {
    NCCL_TRY(links.outgoing(use_, send_peer_, &send_fd_));
    report_events();
  }
  while (may_send() && send_fd_ >= 0) {
    const SendStep& step = schedule_.sends[sent_];
    size_t moved = 0;
    const size_t size = std::min(step.bytes - send_offset_, kSliceBytes);
    if (size > 0) {
      NCCL_TRY(try_send(send_fd_, step.from + send_offset_, size, &moved));
      if (moved == 0) {
        return ncclSuccess;
      }
    }
    *moved_any = true;
    send_offset_ += moved;
    if (send_offset_ == step.bytes) {
      sent_++;
      send_offset_ = 0;
      report_events();
    }
  }
  return ncclSuccess;
}

ncclResult_t Transfer::recv_more(const Links& links, bool* moved_any) {
  const int fd = links.incoming(use_, recv_peer_);
  while (may_recv() && fd >= 0) {
    const RecvStep& step = schedule_.recvs[received_];
    size_t moved = 0;
    const size_t size = std::min(step.bytes - recv_offset_, kSliceBytes);
    if (size > 0) {
      NCCL_TRY(try_recv(fd, step.into + recv_offset_, size, &moved));
      if (moved == 0) {
        return ncclSuccess;
      }
      links.copy_engine().copy(moved);
    }
    *moved_any = true;
    recv_offset_ += moved;
    if (recv_offset_ == step.bytes) {
      if (events_ != nullptr) {
        events_->received(step.bytes);
      }
      if (step.own != nullptr) {
        reducer_.combine(step.own, step.into, step.result, step.bytes, step.last);
      }
      received_++;
      recv_offset_ = 0;
      report_events();
    }
  }
  return ncclSuccess;
}

}  // namespace lab::nccl
