// SPDX-License-Identifier: Apache-2.0
#include "collectives.h"

#include <algorithm>
#include <limits>

#include "reduce.h"

namespace lab::nccl {
namespace {

/// A scheduled receive of a range: the index of the receive of its first slice.
struct Arrival {
  static constexpr size_t kNothing = std::numeric_limits<size_t>::max();
  size_t first_recv = kNothing;
};

/// Writes a schedule range by range; splits ranges into slices and tracks the free slots of the scratch space.
class Builder {
 public:
  Builder(const Operation& operation, int rank, int nranks, Scratch& scratch)
      : send_(static_cast<const std::byte*>(operation.send)),
        recv_(static_cast<std::byte*>(operation.recv)),
        element_(element_bytes(operation.type)),
        bytes_(operation.count * element_),
        rank_(rank),
        nranks_(nranks),
        root_(operation.root),
        scratch_(scratch) {}

  void connect();
  void all_reduce();
  void reduce_scatter();
  void all_gather();
  void broadcast();
  void reduce();

  Schedule take() { return std::move(schedule_); }

 private:
  /// `rank` modulo the number of ranks, as a factor for offsets.
  [[nodiscard]] size_t wrap(int rank) const { return static_cast<size_t>(((rank % nranks_) + nranks_) % nranks_); }

  template <typename Visit>
  static void for_slices(size_t bytes, Visit visit) {
    for (size_t offset = 0, index = 0; offset < bytes; offset += kSliceBytes, ++index) {
      visit(index, offset, std::min(kSliceBytes, bytes - offset));
    }
  }

  void copy(const std::byte* from, std::byte* to, size_t bytes) {
    if (from != to && bytes > 0) {
      schedule_.copies.push_back({.from = from, .to = to, .bytes = bytes});
    }
  }

  /// Sends a range, each slice once its part of `after` is complete.
  void send(const std::byte* from, size_t bytes, Arrival after = {}) {
    for_slices(bytes, [&](size_t index, size_t offset, size_t size) {
      const size_t waits = after.first_recv == Arrival::kNothing ? 0 : after.first_recv + index + 1;
      schedule_.sends.push_back({.from = from + offset, .bytes = size, .after_recvs = waits});
    });
  }

  Arrival recv(std::byte* into, size_t bytes) {
    const Arrival arrival{schedule_.recvs.size()};
    for_slices(bytes, [&](size_t, size_t offset, size_t size) {
      schedule_.recvs.push_back(
          {.into = into + offset, .bytes = size, .after_sends = 0, .own = nullptr, .result = nullptr, .last = false});
    });
    return arrival;
  }

  /// Receives a range and combines it with `own` into `result`; null leaves it in the scratch space for send_partial.
  Arrival recv_combine(const std::byte* own, std::byte* result, size_t bytes, bool last) {
    const Arrival arrival{schedule_.recvs.size()};
    for_slices(bytes, [&](size_t, size_t offset, size_t size) {
      const size_t slot = schedule_.recvs.size() % kWindowSlices;
      std::byte* into = scratch_[slot].data();
      schedule_.recvs.push_back({.into = into,
                                 .bytes = size,
                                 .after_sends = slot_free_[slot],
                                 .own = own + offset,
                                 .result = result == nullptr ? into : result + offset,
                                 .last = last});
    });
    return arrival;
  }

  /// Sends a range that recv_combine left in the scratch space.
  void send_partial(size_t bytes, Arrival partial) {
    for_slices(bytes, [&](size_t index, size_t, size_t size) {
      const size_t recv_index = partial.first_recv + index;
      schedule_.sends.push_back(
          {.from = schedule_.recvs[recv_index].result, .bytes = size, .after_recvs = recv_index + 1});
      slot_free_[recv_index % kWindowSlices] = schedule_.sends.size();
    });
  }

  const std::byte* send_;
  std::byte* recv_;
  size_t element_;
  size_t bytes_;
  int rank_;
  int nranks_;
  int root_;
  Scratch& scratch_;
  std::array<size_t, kWindowSlices> slot_free_{};
  Schedule schedule_;
};

void Builder::connect() {
  if (nranks_ > 1) {
    send(scratch_[0].data(), 1);
    recv(scratch_[1].data(), 1);
  }
}

// Chunk c is reduced on its way around the ring from rank c + 1 to rank c, then passed on around the ring once more.
void Builder::all_reduce() {
  if (nranks_ == 1) {
    copy(send_, recv_, bytes_);
    return;
  }
  const auto ranks = static_cast<size_t>(nranks_);
  for (size_t begin = 0; begin < bytes_; begin += ranks * kChunkBytes) {
    const size_t loop_bytes = std::min(bytes_ - begin, ranks * kChunkBytes);
    const size_t chunk_bytes = (loop_bytes / element_ + ranks - 1) / ranks * element_;
    const auto offset = [&](size_t chunk) { return begin + std::min(chunk * chunk_bytes, loop_bytes); };
    const auto size = [&](size_t chunk) { return offset(chunk + 1) - offset(chunk); };
    Arrival arrived;
    for (int step = 0; step < nranks_ - 1; ++step) {
      const size_t out = wrap(rank_ - 1 - step);
      send((step == 0 ? send_ : recv_) + offset(out), size(out), arrived);
      const size_t in = wrap(rank_ - 2 - step);
      arrived = recv_combine(send_ + offset(in), recv_ + offset(in), size(in), step == nranks_ - 2);
    }
    for (int step = 0; step < nranks_ - 1; ++step) {
      const size_t out = wrap(rank_ - step);
      send(recv_ + offset(out), size(out), arrived);
      const size_t in = wrap(rank_ - 1 - step);
      arrived = recv(recv_ + offset(in), size(in));
    }
  }
}

void Builder::reduce_scatter() {
  if (nranks_ == 1) {
    copy(send_, recv_, bytes_);
    return;
  }
  for (size_t begin = 0; begin < bytes_; begin += kChunkBytes) {
    const size_t size = std::min(bytes_ - begin, kChunkBytes);
    const auto part = [&](size_t chunk) { return send_ + chunk * bytes_ + begin; };
    Arrival partial;
    for (int step = 0; step < nranks_ - 1; ++step) {
      if (step == 0) {
        send(part(wrap(rank_ - 1)), size);
      } else {
        send_partial(size, partial);
      }
      const bool last = step == nranks_ - 2;
      partial = recv_combine(part(wrap(rank_ - 2 - step)), last ? recv_ + begin : nullptr, size, last);
    }
  }
}

void Builder::all_gather() {
  std::byte* own = recv_ + static_cast<size_t>(rank_) * bytes_;
  copy(send_, own, bytes_);
  for (size_t begin = 0; begin < bytes_; begin += kChunkBytes) {
    const size_t size = std::min(bytes_ - begin, kChunkBytes);
    Arrival arrived;
    for (int step = 0; step < nranks_ - 1; ++step) {
      send(recv_ + wrap(rank_ - step) * bytes_ + begin, size, arrived);
      arrived = recv(recv_ + wrap(rank_ - 1 - step) * bytes_ + begin, size);
    }
  }
}

void Builder::broadcast() {
  const size_t position = wrap(rank_ - root_);
  const bool is_end = position == static_cast<size_t>(nranks_ - 1);
  if (position == 0) {
    copy(send_, recv_, bytes_);
  }
  for (size_t begin = 0; begin < bytes_; begin += kChunkBytes) {
    const size_t size = std::min(bytes_ - begin, kChunkBytes);
    Arrival arrived;
    if (position != 0) {
      arrived = recv(recv_ + begin, size);
    }
    if (!is_end) {
      send((position == 0 ? send_ : recv_) + begin, size, arrived);
    }
  }
}

// A chain that starts after the root and ends at it.
void Builder::reduce() {
  if (nranks_ == 1) {
    copy(send_, recv_, bytes_);
    return;
  }
  const size_t position = wrap(rank_ - root_ - 1);
  for (size_t begin = 0; begin < bytes_; begin += kChunkBytes) {
    const size_t size = std::min(bytes_ - begin, kChunkBytes);
    if (position == 0) {
      send(send_ + begin, size);
    } else if (rank_ == root_) {
      recv_combine(send_ + begin, recv_ + begin, size, true);
    } else {
      send_partial(size, recv_combine(send_ + begin, nullptr, size, false));
    }
  }
}

}  // namespace

Schedule ring_schedule(const Operation& operation, int rank, int nranks, Scratch& scratch) {
  Builder builder(operation, rank, nranks, scratch);
  switch (operation.function) {
    case Function::kConnect:
      builder.connect();
      break;
    case Function::kAllReduce:
      builder.all_reduce();
      break;
    case Function::kReduceScatter:
      builder.reduce_scatter();
      break;
    case Function::kAllGather:
      builder.all_gather();
      break;
    case Function::kBroadcast:
      builder.broadcast();
      break;
    case Function::kReduce:
      builder.reduce();
      break;
    case Function::kSend:
    case Function::kRecv:
      break;
  }
  return builder.take();
}

}  // namespace lab::nccl
