// SPDX-License-Identifier: Apache-2.0
#include "execution.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "collectives.h"
#include "result.h"

namespace lab::nccl {

Execution::Execution(std::shared_ptr<Plan> plan, int rank, int nranks, Scratch& scratch)
    : plan_(std::move(plan)), rank_(rank), nranks_(nranks), scratch_(scratch) {}

ncclResult_t Execution::advance(Links& links, bool* done) {
  *done = false;
  while (true) {
    if (running_.empty() && !start_next()) {
      *done = true;
      return ncclSuccess;
    }
    ncclResult_t failure = ncclSuccess;
    std::erase_if(running_, [&](Transfer& transfer) {
      bool transfer_done = false;
      if (failure == ncclSuccess) {
        failure = transfer.advance(links, &transfer_done);
      }
      return transfer_done;
    });
    NCCL_TRY(failure);
    if (!running_.empty()) {
      return ncclSuccess;
    }
  }
}

void Execution::add_polls(const Links& links, std::vector<pollfd>* polls) const {
  for (const Transfer& transfer : running_) {
    transfer.add_polls(links, polls);
  }
}

bool Execution::start_next() {
  const std::vector<Operation>& operations = plan_->operations();
  while (next_operation_ < operations.size()) {
    const Operation& operation = operations[next_operation_++];
    if (!operation.is_point_to_point()) {
      running_.push_back(ring_transfer(operation));
      return true;
    }
  }
  if (!std::exchange(point_to_point_started_, true)) {
    start_point_to_point();
  }
  return !running_.empty();
}

Transfer Execution::ring_transfer(const Operation& operation) {
  const Reducer reducer = operation.reduces() ? Reducer(operation.type, operation.op, nranks_) : Reducer();
  return {ring_schedule(operation, rank_, nranks_, scratch_), reducer, Lane::kRing, (rank_ + 1) % nranks_,
          (rank_ + nranks_ - 1) % nranks_};
}

/// One transfer for each peer; what a rank sends to itself is copied, the n-th send into the n-th receive.
void Execution::start_point_to_point() {
  std::map<int, Schedule> by_peer;
  std::deque<const Operation*> own_sends;
  for (const Operation& operation : plan_->operations()) {
    if (!operation.is_point_to_point()) {
      continue;
    }
    const bool sends = operation.function == Function::kSend;
    const size_t bytes = operation.count * element_bytes(operation.type);
    Schedule& schedule = by_peer[operation.root];
    if (operation.root == rank_) {
      if (sends) {
        own_sends.push_back(&operation);
      }
    } else if (sends) {
      schedule.sends.push_back(
          {.from = static_cast<const std::byte*>(operation.send), .bytes = bytes, .after_recvs = 0});
    } else {
      schedule.recvs.push_back({.into = static_cast<std::byte*>(operation.recv),
                                .bytes = bytes,
                                .after_sends = 0,
                                .own = nullptr,
                                .result = nullptr,
                                .last = false});
    }
  }
  for (const Operation& operation : plan_->operations()) {
    if (operation.function == Function::kRecv && operation.root == rank_ && !own_sends.empty()) {
      const Operation& send = *own_sends.front();
      own_sends.pop_front();
      const size_t bytes = std::min(send.count, operation.count) * element_bytes(operation.type);
      by_peer[rank_].copies.push_back({.from = static_cast<const std::byte*>(send.send),
                                       .to = static_cast<std::byte*>(operation.recv),
                                       .bytes = bytes});
    }
  }
  for (auto& [peer, schedule] : by_peer) {
    running_.emplace_back(std::move(schedule), Reducer(), Lane::kPeerToPeer, peer, peer);
  }
}

}  // namespace lab::nccl
