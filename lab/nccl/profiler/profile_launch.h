// SPDX-License-Identifier: Apache-2.0
// The calling thread's reports to the profiler plugin, in NCCL's order: the group begins with its first operation, and
// each call is an event; at the end of the group follow the kernel launch, then the group of launched tasks, with a
// Coll or P2p for each. A task's stop only means that it is enqueued.
#pragma once

#include <vector>

#include "operation.h"
#include "profiler.h"

namespace lab::nccl {

/// "AllReduce", as NCCL's events and logs spell it.
const char* function_name(Function function);

/// The API calls of one outermost group. Belongs to the calling thread.
class GroupCalls {
 public:
  /// A call recorded in the group, `depth` groups deep; returns the operation's profile, which is empty if it is not
  /// followed further.
  TaskProfile call(const Operation& operation, int depth);
  /// ncclGroupEnd was called.
  void begin_end();
  /// Everything is launched, or failed.
  void finish();

 private:
  Profiler* profiler_ = nullptr;  // of the first operation's communicator; null while no event was started
  void* handle_ = nullptr;
};

/// The operations that one launch passes to the device and to the proxy thread. Must live from before the launch until
/// the plan is posted.
class LaunchedTasks {
 public:
  /// Borrows both arguments.
  LaunchedTasks(Profiler& profiler, std::vector<Operation>& operations);

  void begin_kernel_launch();
  void end_kernel_launch();
  /// Starts the tasks' events and stores their handles in the operations, which may then be posted.
  void begin_post();
  void end_post();

 private:
  void* start_task(Operation& operation, void* group);

  Profiler& profiler_;
  std::vector<Operation>& operations_;
  std::vector<void*> tasks_;
  const Operation* first_ = nullptr;  // the first that is followed
  void* kernel_launch_ = nullptr;
  void* group_ = nullptr;
};

}  // namespace lab::nccl
