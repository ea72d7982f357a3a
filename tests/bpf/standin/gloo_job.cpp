// SPDX-License-Identifier: Apache-2.0
// One call of each Gloo collective between two processes over loopback, each with its own size and tag, run as
// PyTorch's workers do: each call is followed by finishWorkGloo or, if it threw, by finishWorkGlooError. The last call
// throws, because only rank 0 makes it. Prints pid and rank of both, and "caught" where the exception was caught.
// usage: gloo_job FOLDER (empty, for the rendezvous)
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

// Functions that PyTorch's libtorch_cpu defines; empty here, and not inlined.
namespace c10d {
struct ProcessGroupGloo {
  struct AsyncWork {
    __attribute__((noinline)) void finishWorkGloo();
    __attribute__((noinline)) void finishWorkGlooError(std::exception_ptr error);
  };
  __attribute__((noinline)) void runLoop(int worker);
};
void ProcessGroupGloo::AsyncWork::finishWorkGloo() { asm volatile(""); }
void ProcessGroupGloo::AsyncWork::finishWorkGlooError(std::exception_ptr) { asm volatile(""); }
void ProcessGroupGloo::runLoop(int) { asm volatile(""); }
}  // namespace c10d

namespace {

constexpr int kRanks = 2;
constexpr std::chrono::milliseconds kTimeout{10'000};
constexpr std::chrono::milliseconds kShort{200};

std::vector<float> send(4096, 1.0F), receive(4096);

void add(void* sum, const void* a, const void* b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    static_cast<float*>(sum)[i] = static_cast<const float*>(a)[i] + static_cast<const float*>(b)[i];
  }
}

void work(const std::function<void()>& call) {
  c10d::ProcessGroupGloo::AsyncWork done;
  try {
    call();
  } catch (const std::exception&) {
    std::puts("caught");
    done.finishWorkGlooError(std::current_exception());
    return;
  }
  done.finishWorkGloo();
}

void all_reduce(const std::shared_ptr<gloo::Context>& context, size_t count, uint32_t tag,
                std::chrono::milliseconds timeout) {
  gloo::AllreduceOptions options(context);
  options.setInput(send.data(), count);
  options.setOutput(receive.data(), count);
  options.setReduceFunction(add);
  options.setTag(tag);
  options.setTimeout(timeout);
  gloo::allreduce(options);
}

/// Sets the options that all calls share, then makes the call.
template <typename Options>
void run(void (*call)(Options&), Options& options, uint32_t tag) {
  options.setTag(tag);
  work([&] { call(options); });
}

void calls(const std::shared_ptr<gloo::Context>& context) {
  const bool is_root = context->rank == 1;
  work([&] { all_reduce(context, 101, 20, kTimeout); });
  gloo::BroadcastOptions broadcast(context);
  broadcast.setOutput(receive.data(), 102);
  broadcast.setRoot(1);
  run(gloo::broadcast, broadcast, 21);
  gloo::ReduceOptions reduce(context);
  reduce.setInput(send.data(), 103);
  reduce.setOutput(receive.data(), 103);
  reduce.setReduceFunction(add);
  reduce.setRoot(1);
  run(gloo::reduce, reduce, 22);
  gloo::AllgatherOptions allgather(context);
  allgather.setInput(send.data(), 104);
  allgather.setOutput(receive.data(), 104 * kRanks);
  run(gloo::allgather, allgather, 23);
  gloo::GatherOptions gather(context);
  gather.setInput(send.data(), 105);
  if (is_root) {
    gather.setOutput(receive.data(), 105 * kRanks);
  }
  gather.setRoot(1);
  run(gloo::gather, gather, 24);
  gloo::ScatterOptions scatter(context);
  if (is_root) {
    std::vector<float*> parts = {send.data(), send.data() + 106};
    scatter.setInputs(parts, 106);
  }
  scatter.setOutput(receive.data(), 106);
  scatter.setRoot(1);
  run(gloo::scatter, scatter, 25);
  gloo::AlltoallOptions alltoall(context);
  alltoall.setInput(send.data(), 107 * kRanks);
  alltoall.setOutput(receive.data(), 107 * kRanks);
  run(gloo::alltoall, alltoall, 26);
  gloo::BarrierOptions barrier(context);
  run(gloo::barrier, barrier, 27);
  if (context->rank == 0) {
    work([&] { all_reduce(context, 108, 28, kShort); });
  }
}

int job(int rank, const char* folder) {
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, kRanks);
  context->setTimeout(kTimeout);
  context->connectFullMesh(store, device);
  std::thread([] { c10d::ProcessGroupGloo().runLoop(0); }).join();
  calls(context);
  if (rank == 1) {
    std::this_thread::sleep_for(2 * kShort);  // rank 0's exception must come from its time limit, not from our end
  }
  return 0;
}

}  // namespace

int main(int, char** argv) {
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  std::printf("%d %d\n", static_cast<int>(getpid()), rank);
  std::fflush(stdout);
  const int code = job(rank, argv[1]);
  std::fflush(stdout);
  if (child == 0) {
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return code != 0 || !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
}
