// SPDX-License-Identifier: Apache-2.0
#include "autopsy/testing/snapshots.h"

#include <fmt/format.h>

#include "base/clock.h"

namespace stalltrace::autopsy::testing {
namespace {

constexpr int kFirstPort = 40000;

std::string address(int rank) { return fmt::format("10.0.0.{}", rank + 1); }

/// The end of `rank` of the connection that leads from `from` to `to`.
TcpSocket end_of(int rank, int from, int to) {
  const Endpoint source{address(from), static_cast<uint16_t>(kFirstPort + from)};
  const Endpoint destination{address(to), 5000};
  TcpSocket socket{.netns = static_cast<uint64_t>(100 + rank), .inode = static_cast<uint64_t>(1000 + 10 * from + rank)};
  socket.local = rank == from ? source : destination;
  socket.remote = rank == from ? destination : source;
  socket.state = TcpState::kEstablished;
  socket.acked = socket.received = 1'000'000;
  socket.silent_ms = 42'000;
  return socket;
}

}  // namespace

void at_call_site(RankState& state, const stacks::CallSite& site) {
  state.location = to_text(site);
  state.call_site = site;
}

JobSnapshots::JobSnapshots(int ranks) : snapshots_(2) {
  constexpr int64_t kWatched = 3;
  for (size_t number = 0; number < snapshots_.size(); ++number) {
    snapshots_[number].taken_ns = (100 + static_cast<int64_t>(number) * kWatched) * kNsPerSecond;
    for (int rank = 0; rank < ranks; ++rank) {
      RankState state{
          .node = "host7", .pid = 4000 + rank, .start_ticks = 77, .job = "train", .rank = rank, .world_size = ranks};
      at_call_site(state, {"all_reduce", "train.py:88"});
      state.activity = "waiting for another thread (futex)";
      state.call = OpenCall{"all_reduce", Operation::kAllReduce, Witness::kPython};
      state.call_known = true;
      const int next = (rank + 1) % ranks;
      const int previous = (rank + ranks - 1) % ranks;
      if (ranks > 1) {
        state.sockets = {end_of(rank, rank, next), end_of(rank, previous, rank)};
      }
      snapshots_[number].ranks.push_back(std::move(state));
      snapshots_[number].host_addresses.push_back(address(rank));
    }
  }
}

TcpSocket& JobSnapshots::socket(int number, int rank, int peer) {
  for (TcpSocket& socket : snapshots_.at(static_cast<size_t>(number)).ranks.at(static_cast<size_t>(rank)).sockets) {
    if (socket.remote.address == address(peer)) {
      return socket;
    }
  }
  throw std::out_of_range("no such connection");
}

void JobSnapshots::leaves(int rank) {
  both(rank, [](RankState& state) {
    state.call.reset();
    at_call_site(state, {"load_batch", "data.py:212"});
    state.activity = "reading FIFO /data/in";
  });
}

void JobSnapshots::remove(int rank) {
  for (Snapshot& snapshot : snapshots_) {
    std::erase_if(snapshot.ranks, [&](const RankState& state) { return state.rank == rank; });
  }
}

JobVerdict JobSnapshots::verdict() { return judge(snapshots_, context).at(0); }

}  // namespace stalltrace::autopsy::testing
