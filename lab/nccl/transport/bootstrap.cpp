// SPDX-License-Identifier: Apache-2.0
#include "bootstrap.h"

#include <cstring>

#include "debug.h"
#include "rendezvous.h"
#include "result.h"

namespace lab::nccl {
namespace {

/// First words on a control connection between neighbours.
struct Greeting {
  uint64_t magic;
  int64_t rank;
};

ncclResult_t accept_greeting(const Socket& listener, const Greeting& expected, const std::atomic<bool>& abort,
                             Socket* socket) {
  while (true) {
    NCCL_TRY(accept_from(listener, abort, socket));
    Greeting greeting{};
    NCCL_TRY(recv_all(*socket, &greeting, sizeof(greeting), abort));
    if (greeting.magic == expected.magic && greeting.rank == expected.rank) {
      return ncclSuccess;
    }
  }
}

}  // namespace

ncclResult_t Bootstrap::from_root(const BootstrapHandle& handle, const Interface& interface, int rank, int nranks,
                                  const std::atomic<bool>& abort, std::unique_ptr<Bootstrap>* result) {
  Socket listener;
  CheckIn check_in{.magic = handle.magic, .rank = rank, .nranks = nranks, .listener = {}};
  NCCL_TRY(listen_on(interface, &listener, &check_in.listener));
  Socket root;
  NCCL_TRY(connect_to(handle.root, abort, &root));
  NCCL_TRY(send_all(root, &check_in, sizeof(check_in), abort));
  SocketAddress next{};
  NCCL_TRY(recv_all(root, &next, sizeof(next), abort));
  return from_listener(handle.magic, listener, next, rank, nranks, abort, result);
}

ncclResult_t Bootstrap::from_listener(uint64_t magic, const Socket& listener, const SocketAddress& next, int rank,
                                      int nranks, const std::atomic<bool>& abort, std::unique_ptr<Bootstrap>* result) {
  std::unique_ptr<Bootstrap> bootstrap(new Bootstrap(rank, nranks, abort));
  if (nranks > 1) {
    NCCL_TRY(connect_to(next, abort, &bootstrap->next_));
    const Greeting greeting{.magic = magic, .rank = rank};
    NCCL_TRY(send_all(bootstrap->next_, &greeting, sizeof(greeting), abort));
    const Greeting expected{.magic = magic, .rank = (rank + nranks - 1) % nranks};
    NCCL_TRY(accept_greeting(listener, expected, abort, &bootstrap->previous_));
  }
  *result = std::move(bootstrap);
  return ncclSuccess;
}

ncclResult_t Bootstrap::all_gather(void* all, size_t record_bytes) {
  auto* records = static_cast<char*>(all);
  const auto record = [&](int rank) { return records + ((rank + nranks_) % nranks_) * record_bytes; };
  for (int step = 0; step < nranks_ - 1; ++step) {
    NCCL_TRY(send_all(next_, record(rank_ - step), record_bytes, abort_));
    NCCL_TRY(recv_all(previous_, record(rank_ - step - 1), record_bytes, abort_));
  }
  return ncclSuccess;
}

}  // namespace lab::nccl
