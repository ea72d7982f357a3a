// SPDX-License-Identifier: Apache-2.0
#include "execution.h"

#include <algorithm>
#include <map>
#include <utility>

#include "collectives.h"
#include "result.h"

namespace lab::nccl {
namespace {

/// The data sent to and received from one peer, with their task.
struct Exchange {
  Schedule schedule;
  TransferEvents::Tasks tasks;
};

template <typename Visit>
void for_slices(size_t bytes, Visit visit) {
  size_t offset = 0;
  do {  // a message without bytes is one empty slice
    const size_t size = std::min(kSliceBytes, bytes - offset);
    visit(offset, size);
    offset += size;
  } while (offset < bytes);
}

void add_send(Exchange& exchange, const Operation& operation, size_t bytes) {
  std::vector<SendStep>& sends = exchange.schedule.sends;
  const size_t first = sends.size();
  for_slices(bytes, [&](size_t offset, size_t size) {
    sends.push_back({.from = static_cast<const std::byte*>(operation.send) + offset, .bytes = size, .after_recvs = 0});
  });
  exchange.tasks.sends.push_back({.task = operation.profile, .first = first, .count = sends.size() - first});
}

void add_recv(Exchange& exchange, const Operation& operation, size_t bytes) {
  std::vector<RecvStep>& recvs = exchange.schedule.recvs;
  const size_t first = recvs.size();
  for_slices(bytes, [&](size_t offset, size_t size) {
    recvs.push_back({.into = static_cast<std::byte*>(operation.recv) + offset,
                     .bytes = size,
                     .after_sends = 0,
                     .own = nullptr,
                     .result = nullptr,
                     .last = false});
  });
  exchange.tasks.recvs.push_back({.task = operation.profile, .first = first, .count = recvs.size() - first});
}

/// A rank's sends to itself are copies, the n-th send into the n-th receive.
std::vector<Copy> own_copies(const std::vector<Operation>& operations, int rank) {
  std::deque<const Operation*> sends;
  for (const Operation& operation : operations) {
    if (operation.function == Function::kSend && operation.root == rank) {
      sends.push_back(&operation);
    }
  }
  std::vector<Copy> copies;
  for (const Operation& operation : operations) {
    if (operation.function == Function::kRecv && operation.root == rank && !sends.empty()) {
      const Operation& send = *sends.front();
      sends.pop_front();
      copies.push_back({.from = static_cast<const std::byte*>(send.send),
                        .to = static_cast<std::byte*>(operation.recv),
                        .bytes = std::min(send.count, operation.count) * element_bytes(operation.type)});
    }
  }
  return copies;
}

/// Assigns a whole schedule to one task.
TransferEvents::Tasks one_task(const TaskProfile& task, const Schedule& schedule) {
  TransferEvents::Tasks tasks{.all = {task}, .sends = {}, .recvs = {}};
  if (!schedule.sends.empty()) {
    tasks.sends.push_back({.task = task, .first = 0, .count = schedule.sends.size()});
  }
  if (!schedule.recvs.empty()) {
    tasks.recvs.push_back({.task = task, .first = 0, .count = schedule.recvs.size()});
  }
  return tasks;
}

}  // namespace

Execution::Execution(std::shared_ptr<Plan> plan, int rank, int nranks, Scratch& scratch, Profiler* profiler)
    : plan_(std::move(plan)), rank_(rank), nranks_(nranks), scratch_(scratch), profiler_(profiler) {
  for (const Operation& operation : plan_->operations()) {
    if (!operation.is_point_to_point()) {
      stages_.push_back(ring_stage(operation));
    }
  }
  if (Stage stage = point_to_point_stage(); !stage.empty()) {
    stages_.push_back(std::move(stage));
  }
}

Execution::Stage Execution::ring_stage(const Operation& operation) {
  const Reducer reducer = operation.reduces() ? Reducer(operation.type, operation.op, nranks_) : Reducer();
  const int next = (rank_ + 1) % nranks_;
  const int previous = (rank_ + nranks_ - 1) % nranks_;
  Transfer transfer(ring_schedule(operation, rank_, nranks_, scratch_), reducer, LinkUse::kRing, next, previous);
  if (profiler_ != nullptr && operation.profile.mask != 0) {
    transfer.follow(
        std::make_unique<TransferEvents>(*profiler_, one_task(operation.profile, transfer.schedule()), next, previous));
  }
  Stage stage;
  stage.push_back(std::move(transfer));
  return stage;
}

/// Makes one transfer per peer.
Execution::Stage Execution::point_to_point_stage() {
  std::map<int, Exchange> by_peer;
  for (const Operation& operation : plan_->operations()) {
    if (!operation.is_point_to_point()) {
      continue;
    }
    const size_t bytes = operation.count * element_bytes(operation.type);
    Exchange& exchange = by_peer[operation.root];
    if (operation.root == rank_) {
      continue;  // NCCL reports only that these are enqueued
    }
    exchange.tasks.all.push_back(operation.profile);
    if (operation.function == Function::kSend) {
      add_send(exchange, operation, bytes);
    } else {
      add_recv(exchange, operation, bytes);
    }
  }
  if (const auto own = by_peer.find(rank_); own != by_peer.end()) {
    own->second.schedule.copies = own_copies(plan_->operations(), rank_);
  }
  Stage stage;
  for (auto& [peer, exchange] : by_peer) {
    stage.emplace_back(std::move(exchange.schedule), Reducer(), LinkUse::kPeerToPeer, peer, peer);
    if (profiler_ != nullptr) {
      stage.back().follow(std::make_unique<TransferEvents>(*profiler_, exchange.tasks, peer, peer));
    }
  }
  return stage;
}

void Execution::begin_stage(const Stage& stage) {
  for (const Transfer& transfer : stage) {
    if (transfer.events() != nullptr) {
      transfer.events()->begin(transfer.schedule());
    }
  }
}

void Execution::begin() {
  if (!std::exchange(begun_, true) && !stages_.empty()) {
    begin_stage(stages_.front());
  }
}

ncclResult_t Execution::advance(Links& links, bool* done, bool* moved) {
  begin();
  while (!stages_.empty()) {
    ncclResult_t failure = ncclSuccess;
    Stage& running = stages_.front();
    std::erase_if(running, [&](Transfer& transfer) {
      bool transfer_done = false;
      if (failure == ncclSuccess) {
        failure = transfer.advance(links, &transfer_done, moved);
      }
      return transfer_done;
    });
    NCCL_TRY(failure);
    if (!running.empty()) {
      return ncclSuccess;
    }
    stages_.pop_front();
    if (!stages_.empty()) {
      begin_stage(stages_.front());
    }
  }
  *done = true;
  return ncclSuccess;
}

void Execution::add_polls(const Links& links, std::vector<pollfd>* polls) const {
  if (!stages_.empty()) {
    for (const Transfer& transfer : stages_.front()) {
      transfer.add_polls(links, polls);
    }
  }
}

int Execution::proxy_operations() const {
  int count = 0;
  for (const Stage& stage : stages_) {
    for (const Transfer& transfer : stage) {
      count += transfer.events() == nullptr ? 0 : transfer.events()->operations();
    }
  }
  return count;
}

}  // namespace lab::nccl
