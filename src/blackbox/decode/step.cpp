// SPDX-License-Identifier: Apache-2.0
#include "blackbox/decode/step.h"

#include <algorithm>
#include <limits>

namespace stalltrace::blackbox {
namespace {

constexpr size_t kMostOperations = 4096;
constexpr uint64_t kLongestWaitNs = 1ULL << 50;  // 13 days: the sum over all steps of an operation
constexpr uint64_t kMostBytes = 1ULL << 50;

int64_t wait_of(uint64_t wait_ns) { return wait_ns > kLongestWaitNs ? 0 : static_cast<int64_t>(wait_ns); }

ProxyWait wait_for(uint8_t state) {
  switch (state) {
    case ST_BOX_WAIT_GPU:
      return ProxyWait::kGpu;
    case ST_BOX_WAIT_PEER:
      return ProxyWait::kPeer;
    case ST_BOX_WAIT_NETWORK:
      return ProxyWait::kNetwork;
    default:
      return ProxyWait::kNone;
  }
}

/// The fields that steps and operations share; nullopt for an event without a valid start.
std::optional<StepRow> begin_row(const st_box_event& event, int32_t peer, uint64_t collective,
                                 const st_box_communicator* communicator, const Owner& owner) {
  const auto start_ns = to_utc(event.start_ns, owner.clock_offset_ns);
  if (!start_ns) {
    return std::nullopt;
  }
  StepRow step;
  step.row.node_id = owner.node_id;
  step.row.timestamp_ns = *start_ns;
  step.row.pid = owner.pid;
  step.row.tid = static_cast<int32_t>(event.tid & std::numeric_limits<int32_t>::max());
  step.row.comm_id_hash = communicator != nullptr ? communicator->hash : 0;
  step.row.rank = rank_of(communicator != nullptr ? communicator->rank : event.rank);
  step.row.peer = rank_of(peer);
  step.row.channel = event.channels;
  step.row.is_send = (event.flags & ST_BOX_SEND_SIDE) != 0;
  step.collective = (event.flags & ST_BOX_FOREIGN_PARENT) != 0 ? 0 : collective;
  return step;
}

void set_waits(ProxyStep& row, const std::array<uint64_t, ST_BOX_WAITS>& wait_ns) {
  row.gpu_wait_ns = wait_of(wait_ns[ST_BOX_WAIT_GPU]);
  row.peer_wait_ns = wait_of(wait_ns[ST_BOX_WAIT_PEER]);
  row.network_wait_ns = wait_of(wait_ns[ST_BOX_WAIT_NETWORK]);
}

void set_end(const st_box_event& event, const Owner& owner, ProxyStep& row) {
  if (const auto end_ns = to_utc(event.end_ns, owner.clock_offset_ns); end_ns && *end_ns >= row.timestamp_ns) {
    row.duration_ns = *end_ns - row.timestamp_ns;
  }
}

std::array<uint64_t, ST_BOX_WAITS> copy_waits(const uint64_t (&wait_ns)[ST_BOX_WAITS]) {
  return {wait_ns[ST_BOX_WAIT_GPU], wait_ns[ST_BOX_WAIT_PEER], wait_ns[ST_BOX_WAIT_NETWORK]};
}

uint64_t rest(uint64_t whole, uint64_t part) { return whole > part ? whole - part : 0; }

}  // namespace

std::optional<StepRow> StepDecoder::ended_step(const st_box_event& event, const st_box_communicator* communicator,
                                               const Owner& owner) {
  const st_box_proxy_step& step = event.u.proxy_step;
  auto row = begin_row(event, step.peer, step.coll, communicator, owner);
  if (!row) {
    return row;
  }
  set_end(event, owner, row->row);
  row->row.step = std::max(step.step, 0);
  row->row.bytes = std::min(step.transferred_bytes, kMostBytes);
  set_waits(row->row, copy_waits(step.wait_ns));
  if (separate_.size() < kMostOperations || separate_.contains(event.parent)) {
    Sums& sums = separate_[event.parent];
    ++sums.steps;
    sums.bytes += row->row.bytes;
    for (size_t wait = 0; wait < ST_BOX_WAITS; ++wait) {
      sums.wait_ns[wait] += static_cast<uint64_t>(wait_of(step.wait_ns[wait]));
    }
  } else {
    ++doubled_steps_;
  }
  return row;
}

std::optional<StepRow> StepDecoder::ended_operation(const st_box_event& event, const st_box_communicator* communicator,
                                                    const Owner& owner) {
  const st_box_proxy_op& operation = event.u.proxy_op;
  Sums separate;
  if (const auto found = separate_.find(event.id); found != separate_.end()) {
    separate = found->second;
    separate_.erase(found);
  }
  auto row = begin_row(event, operation.peer, event.parent, communicator, owner);
  if (!row || (separate.steps > 0 && separate.steps >= operation.steps_ended)) {
    return std::nullopt;
  }
  set_end(event, owner, row->row);
  // Before version 4 of the profiler interface NCCL reports no single steps: the operation's own count is used.
  const uint32_t steps =
      operation.steps_ended > 0 ? operation.steps_ended : static_cast<uint32_t>(std::max(operation.steps, 0));
  row->row.steps = std::max<uint32_t>(steps - std::min(steps, separate.steps), 1);
  row->row.bytes = rest(std::min(operation.transferred_bytes, kMostBytes), separate.bytes);
  std::array<uint64_t, ST_BOX_WAITS> waits = copy_waits(operation.wait_ns);
  for (size_t wait = 0; wait < ST_BOX_WAITS; ++wait) {
    waits[wait] = rest(waits[wait], separate.wait_ns[wait]);
  }
  set_waits(row->row, waits);
  return row;
}

/// For each operation the step with the lowest number: later ones wait for it, besides their other waits.
std::unordered_map<uint64_t, const st_box_event*> StepDecoder::foremost_steps(const std::vector<st_box_event>& open) {
  std::unordered_map<uint64_t, const st_box_event*> foremost;
  for (const st_box_event& event : open) {
    if (event.type == ST_BOX_PROXY_STEP) {
      const auto [found, fresh] = foremost.try_emplace(event.parent, &event);
      if (!fresh && event.u.proxy_step.step < found->second->u.proxy_step.step) {
        found->second = &event;
      }
    }
  }
  return foremost;
}

std::optional<StepRow> StepDecoder::open_operation(const st_box_event& event, const st_box_event* step, uint64_t now_ns,
                                                   const st_box_communicator* communicator, const Owner& owner) const {
  const st_box_proxy_op& operation = event.u.proxy_op;
  auto row = begin_row(event, operation.peer, event.parent, communicator, owner);
  if (!row) {
    return row;
  }
  row->row.steps = std::min<uint32_t>(operation.steps_ended, std::numeric_limits<int32_t>::max());
  row->row.step = static_cast<int32_t>(row->row.steps);
  row->row.bytes = std::min(operation.transferred_bytes, kMostBytes);
  std::array<uint64_t, ST_BOX_WAITS> waits = copy_waits(operation.wait_ns);
  if (step != nullptr) {
    const st_box_proxy_step& at = step->u.proxy_step;
    row->row.step = std::max(at.step, 0);
    row->row.waits_for = wait_for(at.state);
    const auto since_ns = to_utc(at.state_since_ns, owner.clock_offset_ns);
    if (since_ns && *since_ns >= row->row.timestamp_ns) {
      row->row.timestamp_ns = *since_ns;  // the start of the wait
    }
    if (at.state < ST_BOX_WAITS && at.state_since_ns < now_ns) {
      waits = {};
      waits[at.state] = now_ns - at.state_since_ns;
    }
  }
  set_waits(row->row, waits);
  return row;
}

}  // namespace stalltrace::blackbox
