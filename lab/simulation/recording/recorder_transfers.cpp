// SPDX-License-Identifier: Apache-2.0
// What the profiler plugin records of the data between nodes, as the agent reads it. Part of Recorder.
#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <tuple>

#include "lab/simulation/job.h"
#include "lab/simulation/recording/agent_numbers.h"
#include "lab/simulation/recording/recorder.h"
#include "lab/simulation/recording/transfer_steps.h"
#include "model/events/loss_sources.h"

namespace stalltrace::simulation {
namespace {

constexpr int64_t kPostNs = 20 * kNsPerUs;    // from a call to its operation at the proxy
constexpr int64_t kNoticedNs = kNsPerMs;      // a transfer that ends that much later was held up
constexpr int64_t kRoundNs = 500 * kNsPerMs;  // the agent reads a profiler file that often
constexpr uint32_t kUser = 1000;
constexpr int32_t kProgressThread = 5;  // its number above that of the process
constexpr uint32_t kNoCall = UINT32_MAX;

/// The operations of a connection are taken up one after the other.
using ProxyConnection = std::tuple<int, int, int, bool>;  // group, source, destination; whether of Send and Recv

int64_t weight(const ProxyStep& row) { return row.duration_ns.value_or(std::numeric_limits<int64_t>::max()); }

}  // namespace

/// Rows of one process by the round in which the agent reads them.
struct Recorder::StepRows {
  std::map<int64_t, std::vector<ProxyStep>> rounds;
  void add(int64_t time_ns, const ProxyStep& row) { rounds[time_ns / kRoundNs].push_back(row); }
};

void Recorder::add_transfer(int attempt, const TransferEnds& ends, const Transfer& transfer, const CallIds& ids,
                            StepRows& rows) const {
  const int rank = transfer.send ? ends.src : ends.dst;
  const RankHistory& own = of(attempt, rank);
  const Call& call = own.calls[transfer.send ? ends.src_call : ends.dst_call];
  const int64_t seen_to_ns = std::min(to_ns_, own.exit_ns.value_or(kNever));
  if (transfer.posted_ns() >= seen_to_ns || own.exit_ns.value_or(kNever) < from_ns_) {
    return;
  }
  const auto deliver = [&](ProxyStep row, int64_t time_ns) {
    row.node_id = Job::node_id(node_);
    if (row.duration_ns) {
      row.duration_ns = to_clock(row.timestamp_ns + *row.duration_ns) - to_clock(row.timestamp_ns);
    }
    row.timestamp_ns = to_clock(row.timestamp_ns);
    row.collective_id = ids.of(attempt, rank, transfer.send ? ends.src_call : ends.dst_call);
    row.comm_id_hash = hash_of(attempt, call.group);
    row.pid = own.pid;
    row.tid = own.pid + kProgressThread;
    row.rank = call.position;
    row.peer = transfer.send ? ends.dst_position : ends.src_position;
    row.is_send = transfer.send;
    for (row.channel = 0; row.channel < options_.channels; ++row.channel) {
      rows.add(time_ns, row);
    }
  };
  const int64_t open_to_ns = std::min(transfer.end_ns, seen_to_ns);
  const int64_t first =
      std::max<int64_t>(0, (transfer.posted_ns() - from_ns_ + agent::kReadOpenNs - 1) / agent::kReadOpenNs);
  std::pair<int64_t, int32_t> reported{0, -1};
  for (int64_t at_ns = from_ns_ + first * agent::kReadOpenNs; at_ns < open_to_ns; at_ns += agent::kReadOpenNs) {
    const auto row = open_row(transfer, at_ns);
    if (row && reported != std::pair(row->timestamp_ns, row->step)) {
      reported = {row->timestamp_ns, row->step};
      deliver(*row, at_ns);
    }
  }
  if (transfer.end_ns < seen_to_ns) {
    for (const ProxyStep& row : ended_rows(transfer)) {
      deliver(row, transfer.end_ns);
    }
  }
}

/// Of a flow that has begun: what kept it from going on.
std::vector<Hold> Recorder::holds_of(int attempt, const Flow& flow, int64_t end_ns) const {
  std::vector<Hold> holds;
  if (flow.held_to_ns > flow.held_from_ns) {
    const bool lost_here = flow.lost_to_ns > flow.lost_from_ns;
    holds.push_back({flow.held_from_ns, flow.held_to_ns, lost_here ? ProxyWait::kNetwork : ProxyWait::kGpu});
  }
  if (end_ns - flow.to_ns < kNoticedNs) {
    return holds;
  }
  bool at_an_end = false;
  for (const int rank : {flow.src, flow.dst}) {
    for (const auto& [from_ns, to_ns] : of(attempt, rank).stopped) {
      if (from_ns < end_ns && to_ns > flow.from_ns) {
        holds.push_back({std::max(from_ns, flow.from_ns), std::min(to_ns, end_ns),
                         rank == flow.src ? ProxyWait::kGpu : ProxyWait::kPeer});
        at_an_end = true;
      }
    }
  }
  if (!at_an_end) {  // another rank of the ring was stopped
    const int64_t from_ns = flow.from_ns + (flow.to_ns - flow.from_ns) / 2;
    holds.push_back({from_ns, end_ns >= kNever ? kNever : from_ns + end_ns - flow.to_ns, ProxyWait::kGpu});
  }
  return holds;
}

/// Of calls that never ended and whose data have not begun to move: each connection's first.
std::vector<Recorder::TransferEnds> Recorder::hung_transfers(int attempt) const {
  std::vector<TransferEnds> found;
  const auto call_of = [&](int rank, const Call& like, Operation op, int peer) {
    const std::vector<Call>& calls = of(attempt, rank).calls;
    const auto call = std::find_if(calls.rbegin(), calls.rend(), [&](const Call& other) {
      return other.group == like.group && other.number == like.number && other.op == op && other.peer == peer;
    });
    return call == calls.rend() ? kNoCall : static_cast<uint32_t>(calls.rend() - call - 1);
  };
  for (int rank = node_ * options_.ranks_per_node; rank < (node_ + 1) * options_.ranks_per_node; ++rank) {
    const std::vector<Call>& calls = of(attempt, rank).calls;
    std::set<ProxyConnection> known;
    for (uint32_t i = 0; i < calls.size(); ++i) {
      const Call& call = calls[i];
      if (call.end_ns < kNever) {
        continue;
      }
      const std::vector<int>& ranks = layout_.groups[static_cast<size_t>(call.group)].ranks;
      const auto size = static_cast<int>(ranks.size());
      const bool pair = is_point_to_point(call.op);
      for (const bool send : {true, false}) {
        if (pair && send != (call.op == Operation::kSend)) {
          continue;
        }
        const int position = pair ? call.peer : (call.position + (send ? 1 : size - 1)) % size;
        const int other = ranks[static_cast<size_t>(position)];
        const int src = send ? rank : other;
        const int dst = send ? other : rank;
        if (here(other) || !known.insert({call.group, src, dst, pair}).second) {
          continue;
        }
        const Operation theirs = !pair ? call.op : send ? Operation::kRecv : Operation::kSend;
        const uint32_t their_call = call_of(other, call, theirs, pair ? call.position : call.peer);
        found.push_back({.src = src,
                         .dst = dst,
                         .src_call = send ? i : their_call,
                         .dst_call = send ? their_call : i,
                         .src_position = send ? call.position : position,
                         .dst_position = send ? position : call.position});
      }
    }
  }
  return found;
}

/// What is known of both ends; `free_ns`: the connection has done its operations before.
Transfer Recorder::transfer_of(int attempt, const TransferEnds& ends, int64_t free_ns) const {
  Transfer transfer{.src_posted_ns = kNever,
                    .dst_posted_ns = kNever,
                    .src_kernel_ns = kNever,
                    .dst_kernel_ns = kNever,
                    .ready_ns = kNever,
                    .end_ns = kNever};
  if (ends.src_call != kNoCall) {
    const Call& call = of(attempt, ends.src).calls[ends.src_call];
    transfer.src_posted_ns = std::max(call.arrival_ns + kPostNs, free_ns);
    transfer.src_kernel_ns = call.kernel_ns;
  }
  if (ends.dst_call != kNoCall) {
    const Call& call = of(attempt, ends.dst).calls[ends.dst_call];
    transfer.dst_posted_ns = std::max(call.arrival_ns + kPostNs, free_ns);
    transfer.dst_kernel_ns = call.kernel_ns;
  }
  return transfer;
}

void Recorder::write_transfers(const CallIds& ids, EventSink& sink) const {
  std::map<int32_t, StepRows> rows;  // by process
  for (int attempt = 0; attempt < static_cast<int>(history_.attempts.size()); ++attempt) {
    std::map<ProxyConnection, int64_t> free_ns;
    const auto add = [&](const TransferEnds& ends, Transfer& transfer) {
      for (const bool send : {true, false}) {
        const int rank = send ? ends.src : ends.dst;
        if (here(rank) && (send ? ends.src_call : ends.dst_call) != kNoCall) {
          transfer.send = send;
          add_transfer(attempt, ends, transfer, ids, rows[of(attempt, rank).pid]);
        }
      }
    };
    for (const uint32_t index : flows_here(attempt)) {
      const Flow& flow = flow_of(attempt, index);
      const Call& src = of(attempt, flow.src).calls[flow.src_call];
      const Call& dst = of(attempt, flow.dst).calls[flow.dst_call];
      int64_t& free = free_ns[{flow.group, flow.src, flow.dst, is_point_to_point(src.op)}];
      const TransferEnds ends{flow.src, flow.dst, flow.src_call, flow.dst_call, src.position, dst.position};
      Transfer transfer = transfer_of(attempt, ends, free);
      transfer.ready_ns = flow.from_ns;
      transfer.end_ns = std::max({flow.to_ns, src.end_ns, dst.end_ns});
      transfer.bytes = static_cast<uint64_t>(flow.bytes / options_.channels);
      const size_t ranks = layout_.groups[static_cast<size_t>(flow.group)].ranks.size();
      transfer.steps = steps_of(src.op, ranks, transfer.bytes);
      transfer.busy = flow.busy;
      transfer.holds = holds_of(attempt, flow, transfer.end_ns);
      free = transfer.end_ns;
      add(ends, transfer);
    }
    for (const TransferEnds& ends : hung_transfers(attempt)) {
      const bool by_sender = ends.src_call != kNoCall;
      const Call& call =
          by_sender ? of(attempt, ends.src).calls[ends.src_call] : of(attempt, ends.dst).calls[ends.dst_call];
      const int64_t free = free_ns[{call.group, ends.src, ends.dst, is_point_to_point(call.op)}];
      if (free < kNever) {  // else an operation that has begun is in front of it
        Transfer transfer = transfer_of(attempt, ends, free);
        transfer.steps = steps_of(call.op, layout_.groups[static_cast<size_t>(call.group)].ranks.size(), 0);
        add(ends, transfer);
      }
    }
  }
  deliver_steps(rows, sink);
}

/// The agent keeps the longest of what it reads at a time.
void Recorder::deliver_steps(std::map<int32_t, StepRows>& rows, EventSink& sink) const {
  std::vector<ProxyStep> kept;
  uint64_t left_out = 0;
  for (auto& [pid, process] : rows) {
    for (auto& [round, steps] : process.rounds) {
      if (steps.size() > agent::kStepsAtOnce) {
        std::ranges::stable_sort(steps, std::ranges::greater{}, weight);
        left_out += steps.size() - agent::kStepsAtOnce;
        steps.resize(agent::kStepsAtOnce);
      }
      kept.insert(kept.end(), steps.begin(), steps.end());
    }
  }
  std::ranges::stable_sort(kept, {}, &ProxyStep::timestamp_ns);
  for (const ProxyStep& row : kept) {
    sink.accept(row);
  }
  if (left_out > 0) {
    sink.accept(Loss{Job::node_id(node_), users_loss("profiler:short_steps", kUser), left_out});
  }
}

}  // namespace stalltrace::simulation
