// SPDX-License-Identifier: Apache-2.0
// What NCCL's profiler plugin reports of one end of a transfer: the steps that waited long, and all others in one sum.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/events/profiler.h"
#include "model/operation.h"

namespace stalltrace::simulation {

/// A time in which the data stood still, at both ends.
struct Hold {
  int64_t from_ns = 0;
  int64_t to_ns = 0;
  ProxyWait sender = ProxyWait::kGpu;  // what the sender waited for; the receiver waits for data
};

/// One proxy operation of a channel, from one of its ends. What has not happened is at kNever.
struct Transfer {
  bool send = false;
  int64_t src_posted_ns = 0;  // its proxy takes up the operation
  int64_t dst_posted_ns = 0;
  int64_t src_kernel_ns = 0;  // its device begins
  int64_t dst_kernel_ns = 0;
  int64_t ready_ns = 0;  // the last device of the call's ranks begins
  int64_t end_ns = 0;
  int32_t steps = 1;
  uint64_t bytes = 0;
  double busy = 1;  // the share of the moving time in which the sender had data
  std::vector<Hold> holds;

  [[nodiscard]] int64_t posted_ns() const { return send ? src_posted_ns : dst_posted_ns; }
};

/// Steps of a ring's operation on a channel: one for each neighbour that data pass, or more where they do not fit.
int32_t steps_of(Operation op, size_t ranks, uint64_t bytes);

/// Rows of an operation that has ended, without what they belong to. They add up to the operation.
std::vector<ProxyStep> ended_rows(const Transfer& transfer);
/// The row of the step that the others wait for, if it has waited for long at that time.
std::optional<ProxyStep> open_row(const Transfer& transfer, int64_t time_ns);

}  // namespace stalltrace::simulation
