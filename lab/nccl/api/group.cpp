// SPDX-License-Identifier: Apache-2.0
#include "group.h"

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "comm.h"
#include "debug.h"
#include "profiler/profile_launch.h"
#include "reduce.h"
#include "result.h"

namespace lab::nccl {
namespace {

struct InitWork {
  ncclComm_t parent;
  std::function<ncclResult_t()> run;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<InitWork> inits;
  std::vector<Operation> operations;
  GroupCalls profile;
};

Group& this_thread() {
  thread_local Group group;
  return group;
}

ncclResult_t check_arguments(const char* name, const Operation& operation) {
  NCCL_TRY(check_comm(operation.comm, name));
  const ncclComm& comm = *operation.comm;
  if (operation.root < 0 || operation.root >= comm.nranks) {
    NCCL_WARN("%s : invalid root %d (root should be in the 0..%d range)", name, operation.root, comm.nranks);
    return ncclInvalidArgument;
  }
  if (element_bytes(operation.type) == 0) {
    NCCL_WARN("%s : invalid type %d", name, operation.type);
    return ncclInvalidArgument;
  }
  if (operation.reduces() && !Reducer::supports(operation.type, operation.op)) {
    NCCL_WARN("%s : invalid reduction operation %d for type %d", name, operation.op, operation.type);
    return ncclInvalidArgument;
  }
  const Function function = operation.function;
  const bool at_root = comm.rank == operation.root;
  const bool needs_send = function != Function::kRecv && (function != Function::kBroadcast || at_root);
  const bool needs_recv = function != Function::kSend && (function != Function::kReduce || at_root);
  if (operation.count > 0 && ((needs_send && operation.send == nullptr) || (needs_recv && operation.recv == nullptr))) {
    NCCL_WARN("%s : %s argument is NULL", name, needs_send && operation.send == nullptr ? "sendbuff" : "recvbuff");
    return ncclInvalidArgument;
  }
  if (comm.finalized) {
    NCCL_WARN("%s : comm %p was finalized", name, static_cast<const void*>(&comm));
    return ncclInvalidUsage;
  }
  return comm.proxy->async_error();
}

/// The device reaches the plan, and is busy until the proxy has finished it.
void start_on_stream(void* argument, labKernel_t kernel) {
  const std::unique_ptr<std::shared_ptr<Plan>> plan(static_cast<std::shared_ptr<Plan>*>(argument));
  (*plan)->arrive(kernel);
}

/// Selects the communicator's device, to which the default stream belongs, whatever device the caller uses.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    cudaGetDevice(&before_);
    cudaSetDevice(device);
  }
  ~DeviceGuard() { cudaSetDevice(before_); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
};

ncclResult_t check_self_sends(const ncclComm& comm, const std::vector<Operation>& operations) {
  const auto count = [&](Function function) {
    return std::ranges::count_if(operations, [&](const Operation& operation) {
      return operation.function == function && operation.root == comm.rank;
    });
  };
  if (count(Function::kSend) != count(Function::kRecv)) {
    NCCL_WARN("Trying to send to self without a matching recv");
    return ncclInvalidUsage;
  }
  return ncclSuccess;
}

ncclResult_t launch_on(const std::vector<cudaStream_t>& streams, const std::shared_ptr<Plan>& plan) {
  for (cudaStream_t stream : streams) {
    auto argument = std::make_unique<std::shared_ptr<Plan>>(plan);
    if (const cudaError_t error = labLaunchKernel(stream, start_on_stream, argument.get()); error != cudaSuccess) {
      NCCL_WARN("Cuda failure %d '%s'", error, cudaGetErrorString(error));
      return ncclUnhandledCudaError;
    }
    static_cast<void>(argument.release());
  }
  return ncclSuccess;
}

/// With a profiler: launches, then immediately posts the plan to the proxy, as NCCL does.
ncclResult_t launch_profiled(Profiler& profiler, const std::vector<cudaStream_t>& streams,
                             const std::shared_ptr<Plan>& plan, WorkQueue& queue) {
  LaunchedTasks tasks(profiler, plan->operations());
  tasks.begin_kernel_launch();
  NCCL_TRY(launch_on(streams, plan));
  tasks.end_kernel_launch();
  tasks.begin_post();
  queue.push(plan);
  queue.wake();
  tasks.end_post();
  return ncclSuccess;
}

ncclResult_t launch(ncclComm_t comm, std::vector<Operation> operations) {
  NCCL_TRY(check_self_sends(*comm, operations));
  std::vector<cudaStream_t> streams;
  for (const Operation& operation : operations) {
    if (std::ranges::find(streams, operation.stream) == streams.end()) {
      streams.push_back(operation.stream);
    }
  }
  for (const Operation& operation : operations) {
    comm->memory.count(operation.function);
  }
  const DeviceGuard guard(comm->device);
  const std::shared_ptr<WorkQueue>& queue = comm->proxy->queue();
  const auto plan = std::make_shared<Plan>(std::move(operations), queue, streams.size());
  if (comm->profiler != nullptr) {
    return launch_profiled(*comm->profiler, streams, plan, *queue);
  }
  queue->push(plan);
  return launch_on(streams, plan);
}

/// Uses one thread for each independent item; they inherit the calling thread's device.
ncclResult_t run_inits(const std::vector<InitWork>& inits) {
  if (inits.size() == 1) {
    return inits.front().run();
  }
  std::vector<ncclResult_t> results(inits.size(), ncclSuccess);
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < inits.size(); ++i) {
    const ncclComm_t parent = inits[i].parent;
    const auto is_sibling = [parent](const InitWork& other) { return parent != nullptr && other.parent == parent; };
    if (std::find_if(inits.begin(), inits.begin() + static_cast<ptrdiff_t>(i), is_sibling) !=
        inits.begin() + static_cast<ptrdiff_t>(i)) {
      continue;
    }
    threads.emplace_back([&inits, &results, is_sibling, i] {
      for (size_t j = i; j < inits.size(); ++j) {
        if (j == i || is_sibling(inits[j])) {
          results[j] = inits[j].run();
        }
      }
    });
  }
  threads.clear();
  const auto failed = std::ranges::find_if(results, [](ncclResult_t result) { return result != ncclSuccess; });
  return failed == results.end() ? ncclSuccess : *failed;
}

ncclResult_t launch_all(std::vector<Operation> operations) {
  while (!operations.empty()) {
    const ncclComm_t comm = operations.front().comm;
    const auto others =
        std::ranges::stable_partition(operations, [&](const Operation& operation) { return operation.comm == comm; });
    std::vector<Operation> rest(others.begin(), others.end());
    operations.erase(others.begin(), others.end());
    NCCL_TRY(launch(comm, std::move(operations)));
    operations = std::move(rest);
  }
  return ncclSuccess;
}

ncclResult_t finish(const Group& group) {
  NCCL_TRY(group.error);
  NCCL_TRY(run_inits(group.inits));
  return launch_all(group.operations);
}

}  // namespace

ncclResult_t group_start() {
  this_thread().depth++;
  return ncclSuccess;
}

ncclResult_t group_end() {
  Group& group = this_thread();
  if (group.depth == 0) {
    NCCL_WARN("ncclGroupEnd: not in a group call.");
    return ncclInvalidUsage;
  }
  if (--group.depth > 0) {
    return ncclSuccess;
  }
  Group ended = std::exchange(group, {});
  ended.profile.begin_end();
  const ncclResult_t result = finish(ended);
  ended.profile.finish();
  return result;
}

ncclResult_t enqueue(const char* name, const Operation& operation) {
  group_start();
  Group& group = this_thread();
  if (const ncclResult_t result = check_arguments(name, operation); result != ncclSuccess) {
    group.error = group.error == ncclSuccess ? result : group.error;
    const ncclResult_t ended = group_end();
    return ended == ncclSuccess ? result : ended;
  }
  info(kColl,
       "%s: opCount %lx sendbuff %p recvbuff %p count %zu datatype %d op %d root %d comm %p [nranks=%d] stream %p",
       name, static_cast<unsigned long>(operation.comm->operation_count++), operation.send, operation.recv,
       operation.count, operation.type, operation.op, operation.root, static_cast<void*>(operation.comm),
       operation.comm->nranks, static_cast<void*>(operation.stream));
  if (operation.count > 0 || operation.is_point_to_point()) {
    group.operations.push_back(operation);
    group.operations.back().profile = group.profile.call(operation, group.depth);
  }
  return group_end();
}

ncclResult_t enqueue_init(ncclComm_t parent, std::function<ncclResult_t()> work) {
  group_start();
  this_thread().inits.push_back({.parent = parent, .run = std::move(work)});
  return group_end();
}

}  // namespace lab::nccl
