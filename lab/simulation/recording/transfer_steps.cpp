// SPDX-License-Identifier: Apache-2.0
#include "lab/simulation/recording/transfer_steps.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "lab/simulation/recording/agent_numbers.h"

namespace stalltrace::simulation {
namespace {

constexpr uint64_t kStepBytes = 512 << 10;  // NCCL_BUFFSIZE / NCCL_STEPS
constexpr int32_t kMostSteps = 1'000'000;

/// The waits of one step, one after the other.
struct StepWaits {
  struct Part {
    ProxyWait wait = ProxyWait::kNone;
    int64_t to_ns = 0;
  };
  int32_t step = 0;
  int64_t from_ns = 0;
  std::vector<Part> parts;
};

int64_t between(int64_t from_ns, int64_t to_ns) { return std::max<int64_t>(0, to_ns - from_ns); }

/// When things happen at this end.
struct Moments {
  explicit Moments(const Transfer& transfer)
      : posted_ns(transfer.posted_ns()),
        data_ns(std::max(transfer.src_kernel_ns, transfer.src_posted_ns)),
        sent_ns(std::max(data_ns, transfer.dst_posted_ns)),
        ready_ns(std::max({transfer.ready_ns, sent_ns, posted_ns})),
        taken_ns(std::max({sent_ns, posted_ns, transfer.dst_kernel_ns})) {}
  int64_t posted_ns;
  int64_t data_ns;   // the sender's device has made the first step's
  int64_t sent_ns;   // and the receiver has room for it
  int64_t ready_ns;  // the other steps can follow
  int64_t taken_ns;  // the receiver's device took the first step's
};

/// Of the steps that may wait long, in the order of their ends: the first, which needs its own sender alone; the next,
/// which needs what the sender's own neighbour sends; those that are under way when the data are held up.
std::vector<StepWaits> waits_of(const Transfer& transfer) {
  const Moments at(transfer);
  std::vector<StepWaits> waits;
  if (transfer.send) {
    waits.push_back({0, at.posted_ns, {{ProxyWait::kGpu, at.data_ns}, {ProxyWait::kPeer, at.sent_ns}}});
  } else {
    const int64_t arrived_ns = std::max(at.sent_ns, at.posted_ns);
    waits.push_back({0, at.posted_ns, {{ProxyWait::kNetwork, arrived_ns}, {ProxyWait::kGpu, at.taken_ns}}});
  }
  if (transfer.steps > 1) {
    waits.push_back({1, at.posted_ns, {{transfer.send ? ProxyWait::kGpu : ProxyWait::kNetwork, at.ready_ns}}});
  }
  int32_t number = std::max(transfer.steps / 2, agent::kStepsUnderWay);
  for (const Hold& hold : transfer.holds) {
    const ProxyWait wait = transfer.send ? hold.sender : ProxyWait::kNetwork;
    waits.push_back({std::min(number, transfer.steps - 1), hold.from_ns, {{wait, hold.to_ns}}});
    number += agent::kStepsUnderWay;
  }
  return waits;
}

int64_t& sum_of(ProxyStep& row, ProxyWait wait) {
  return wait == ProxyWait::kGpu ? row.gpu_wait_ns : wait == ProxyWait::kPeer ? row.peer_wait_ns : row.network_wait_ns;
}

uint64_t bytes_of_step(const Transfer& transfer) { return transfer.bytes / static_cast<uint64_t>(transfer.steps); }

/// None where it waited for nothing long.
std::optional<ProxyStep> long_step(const Transfer& transfer, const StepWaits& waits) {
  ProxyStep row{.timestamp_ns = waits.from_ns, .duration_ns = waits.parts.back().to_ns - waits.from_ns};
  row.step = waits.step;
  row.bytes = bytes_of_step(transfer);
  bool is_long = false;
  int64_t since_ns = waits.from_ns;
  for (const StepWaits::Part& part : waits.parts) {
    const int64_t waited_ns = between(since_ns, part.to_ns);
    sum_of(row, part.wait) += waited_ns;
    is_long = is_long || waited_ns >= agent::kLongStepNs;
    since_ns = std::max(since_ns, part.to_ns);
  }
  return is_long ? std::optional(row) : std::nullopt;
}

/// Up to eight steps are under way at a time, and wait together.
ProxyStep whole_operation(const Transfer& transfer) {
  const Moments at(transfer);
  ProxyStep row{.timestamp_ns = at.posted_ns, .duration_ns = transfer.end_ns - at.posted_ns};
  row.steps = static_cast<uint32_t>(transfer.steps);
  row.bytes = transfer.bytes;
  const int64_t together = std::min(transfer.steps, agent::kStepsUnderWay);
  int64_t moving_ns = between(std::max(at.ready_ns, at.posted_ns), transfer.end_ns);
  for (const Hold& hold : transfer.holds) {
    const int64_t held_ns = between(hold.from_ns, hold.to_ns);
    sum_of(row, transfer.send ? hold.sender : ProxyWait::kNetwork) += together * held_ns;
    moving_ns = between(held_ns, moving_ns);
  }
  if (transfer.send) {
    const auto busy_ns = static_cast<int64_t>(transfer.busy * static_cast<double>(moving_ns));
    row.gpu_wait_ns += together * between(at.posted_ns, at.data_ns) +
                       (together - 1) * between(at.data_ns, at.ready_ns) + together * (moving_ns - busy_ns);
    row.peer_wait_ns += between(at.data_ns, at.sent_ns);
    row.network_wait_ns += together * busy_ns;
  } else {
    const int64_t arrived_ns = std::max(at.sent_ns, at.posted_ns);
    row.network_wait_ns += together * between(at.posted_ns, arrived_ns) +
                           (together - 1) * between(arrived_ns, at.ready_ns) + together * moving_ns;
    row.gpu_wait_ns += between(arrived_ns, at.taken_ns);
  }
  return row;
}

}  // namespace

int32_t steps_of(Operation op, size_t ranks, uint64_t bytes) {
  const auto others = static_cast<uint64_t>(std::max<size_t>(ranks, 2) - 1);
  const uint64_t passes = op == Operation::kAllReduce                                      ? 2 * others
                          : op == Operation::kAllGather || op == Operation::kReduceScatter ? others
                                                                                           : 1;
  return static_cast<int32_t>(
      std::clamp<uint64_t>((bytes + kStepBytes - 1) / kStepBytes, passes, static_cast<uint64_t>(kMostSteps)));
}

std::vector<ProxyStep> ended_rows(const Transfer& transfer) {
  std::vector<ProxyStep> rows;
  ProxyStep rest = whole_operation(transfer);
  int32_t last = -agent::kStepsUnderWay;
  for (const StepWaits& waits : waits_of(transfer)) {
    const auto row = waits.step - last >= agent::kStepsUnderWay ? long_step(transfer, waits) : std::nullopt;
    if (!row) {
      continue;
    }
    last = waits.step;
    --rest.steps;
    rest.bytes -= std::min(rest.bytes, row->bytes);
    rest.gpu_wait_ns = between(row->gpu_wait_ns, rest.gpu_wait_ns);
    rest.peer_wait_ns = between(row->peer_wait_ns, rest.peer_wait_ns);
    rest.network_wait_ns = between(row->network_wait_ns, rest.network_wait_ns);
    rows.push_back(*row);
  }
  if (rest.steps > 0) {
    rows.push_back(rest);
  }
  return rows;
}

std::optional<ProxyStep> open_row(const Transfer& transfer, int64_t time_ns) {
  for (const StepWaits& waits : waits_of(transfer)) {
    if (time_ns < waits.from_ns) {
      continue;
    }
    int64_t since_ns = waits.from_ns;
    for (const StepWaits::Part& part : waits.parts) {
      if (time_ns < part.to_ns) {
        if (time_ns - since_ns < agent::kOpenWaitNs) {
          return std::nullopt;
        }
        ProxyStep row{.timestamp_ns = since_ns};
        row.step = waits.step;
        row.steps = static_cast<uint32_t>(waits.step);
        row.bytes = bytes_of_step(transfer) * row.steps;
        row.waits_for = part.wait;
        sum_of(row, part.wait) = time_ns - since_ns;
        return row;
      }
      since_ns = std::max(since_ns, part.to_ns);
    }
  }
  return std::nullopt;
}

}  // namespace stalltrace::simulation
