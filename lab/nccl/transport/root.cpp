// SPDX-License-Identifier: Apache-2.0
// The bootstrap root: a detached thread that owns the listener and lives until all ranks of its id have checked in.
#include <pthread.h>

#include <cstring>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "bootstrap.h"
#include "debug.h"
#include "rendezvous.h"
#include "result.h"

namespace lab::nccl {
namespace {

class Root {
 public:
  Root(uint64_t magic, Socket listener) : magic_(magic), listener_(std::move(listener)) {}

  ncclResult_t serve() {
    do {
      Socket socket;
      NCCL_TRY(accept_from(listener_, never_, &socket));
      CheckIn check_in{};
      if (recv_all(socket, &check_in, sizeof(check_in), never_) == ncclSuccess && check_in.magic == magic_) {
        NCCL_TRY(admit(check_in, std::move(socket)));
      }
    } while (arrived_ < members_.size());
    return answer();
  }

 private:
  struct Member {
    Socket socket;
    SocketAddress listener;
  };

  ncclResult_t admit(const CheckIn& check_in, Socket socket) {
    if (check_in.rank < 0 || check_in.rank >= check_in.nranks) {
      NCCL_WARN("Bootstrap Root : rank %d is outside of 0..%d", check_in.rank, check_in.nranks - 1);
      return ncclInternalError;
    }
    if (members_.empty()) {
      members_.resize(static_cast<size_t>(check_in.nranks));
    }
    if (static_cast<size_t>(check_in.nranks) != members_.size()) {
      NCCL_WARN("Bootstrap Root : mismatch in rank count from procs %zu : %d", members_.size(), check_in.nranks);
      return ncclInternalError;
    }
    Member& member = members_[static_cast<size_t>(check_in.rank)];
    if (member.socket) {
      NCCL_WARN("Bootstrap Root : rank %d of %d ranks has already checked in", check_in.rank, check_in.nranks);
      return ncclInternalError;
    }
    member = Member{.socket = std::move(socket), .listener = check_in.listener};
    arrived_++;
    return ncclSuccess;
  }

  ncclResult_t answer() {
    for (size_t rank = 0; rank < members_.size(); ++rank) {
      const SocketAddress& next = members_[(rank + 1) % members_.size()].listener;
      NCCL_TRY(send_all(members_[rank].socket, &next, sizeof(next), never_));
    }
    return ncclSuccess;
  }

  uint64_t magic_;
  Socket listener_;
  std::vector<Member> members_;
  size_t arrived_ = 0;
  const std::atomic<bool> never_ = false;
};

}  // namespace

ncclResult_t start_root(const Interface& interface, ncclUniqueId* id) {
  std::random_device random;
  BootstrapHandle handle{};
  handle.magic = (static_cast<uint64_t>(random()) << 32U) | random();
  Socket listener;
  NCCL_TRY(listen_on(interface, &listener, &handle.root));
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id, &handle, sizeof(handle));
  try {
    std::thread([root = std::make_unique<Root>(handle.magic, std::move(listener))] {
      pthread_setname_np(pthread_self(), "NCCL BootstrapR");
      root->serve();
    }).detach();
  } catch (const std::system_error& error) {
    NCCL_WARN("Call to pthread_create failed: %s", error.what());
    return ncclSystemError;
  }
  return ncclSuccess;
}

}  // namespace lab::nccl
