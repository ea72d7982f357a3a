// SPDX-License-Identifier: Apache-2.0
// Every collective, datatype, reduction, odd sizes, in place and out of place, against a serial computation.
#include <string>
#include <tuple>

#include "ranks.h"
#include "values.h"

namespace lab::test {
namespace {

constexpr ncclRedOp_t kOps[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
constexpr size_t kBig = 700001;  // several loops of several chunks, the last one ragged

void expect_reduced(const Bytes& got, ncclDataType_t type, ncclRedOp_t op, int nranks, size_t count, size_t first) {
  for (size_t i = 0; i < count; ++i) {
    const double expected = reduced(type, op, nranks, first + i);
    const double actual = get(type, got, i);
    ASSERT_LE(std::fabs(actual - expected), tolerance(type, op))
        << info_of(type).name << " op " << op << " element " << i << " of " << count << ": " << actual << ", not "
        << expected;
  }
}

std::vector<size_t> sizes_for(int nranks) {
  return {0, 1, static_cast<size_t>(nranks > 1 ? nranks - 1 : 1), static_cast<size_t>(nranks + 1), 1000};
}

class Collective : public testing::TestWithParam<int> {};

void all_reduce(const Rank& rank, ncclDataType_t type, ncclRedOp_t op, size_t count, bool in_place) {
  const Bytes send = samples(type, rank.rank(), count);
  Bytes recv = in_place ? send : Bytes(send.size(), std::byte{0x5a});
  const void* from = in_place ? recv.data() : send.data();
  ASSERT_EQ(ncclAllReduce(from, recv.data(), count, type, op, rank.comm(), rank.stream()), ncclSuccess);
  rank.synchronize();
  expect_reduced(recv, type, op, rank.nranks(), count, 0);
}

TEST_P(Collective, AllReduceOfEveryTypeAndOperation) {
  with_ranks(GetParam(), [](const Rank& rank) {
    for (const TypeInfo& type : kTypes) {
      for (const ncclRedOp_t op : kOps) {
        all_reduce(rank, type.type, op, 257, /*in_place=*/false);
      }
    }
  });
}

TEST_P(Collective, AllReduceOfOddSizes) {
  with_ranks(GetParam(), [](const Rank& rank) {
    for (const size_t count : sizes_for(rank.nranks())) {
      all_reduce(rank, ncclFloat32, ncclSum, count, false);
      all_reduce(rank, ncclFloat16, ncclMax, count, true);
    }
    all_reduce(rank, ncclFloat32, ncclSum, kBig, false);
    all_reduce(rank, ncclInt64, ncclSum, kBig, true);
  });
}

void reduce_scatter(const Rank& rank, ncclDataType_t type, ncclRedOp_t op, size_t count, bool in_place) {
  const auto nranks = static_cast<size_t>(rank.nranks());
  Bytes send = samples(type, rank.rank(), count * nranks);
  Bytes recv(count * info_of(type).bytes);
  const size_t own = static_cast<size_t>(rank.rank()) * recv.size();
  std::byte* into = in_place ? send.data() + own : recv.data();
  ASSERT_EQ(ncclReduceScatter(send.data(), into, count, type, op, rank.comm(), rank.stream()), ncclSuccess);
  rank.synchronize();
  const Bytes got(into, into + recv.size());
  expect_reduced(got, type, op, rank.nranks(), count, static_cast<size_t>(rank.rank()) * count);
}

TEST_P(Collective, ReduceScatter) {
  with_ranks(GetParam(), [](const Rank& rank) {
    for (const size_t count : sizes_for(rank.nranks())) {
      reduce_scatter(rank, ncclInt32, ncclSum, count, false);
      reduce_scatter(rank, ncclBfloat16, ncclAvg, count, true);
    }
    reduce_scatter(rank, ncclFloat64, ncclSum, kBig / 2, false);
    reduce_scatter(rank, ncclFloat32, ncclMin, kBig, true);
  });
}

void all_gather(const Rank& rank, size_t count, bool in_place) {
  const auto nranks = static_cast<size_t>(rank.nranks());
  const Bytes send = samples(ncclInt32, rank.rank(), count);
  Bytes recv(send.size() * nranks);
  std::byte* own = recv.data() + static_cast<size_t>(rank.rank()) * send.size();
  if (in_place) {
    std::copy(send.begin(), send.end(), own);
  }
  ASSERT_EQ(ncclAllGather(in_place ? own : send.data(), recv.data(), count, ncclInt32, rank.comm(), rank.stream()),
            ncclSuccess);
  rank.synchronize();
  Bytes expected;
  for (int other = 0; other < rank.nranks(); ++other) {
    const Bytes part = samples(ncclInt32, other, count);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  ASSERT_EQ(recv, expected);
}

TEST_P(Collective, AllGather) {
  with_ranks(GetParam(), [](const Rank& rank) {
    for (const size_t count : sizes_for(rank.nranks())) {
      all_gather(rank, count, false);
      all_gather(rank, count, true);
    }
    all_gather(rank, kBig, true);
  });
}

void broadcast(const Rank& rank, int root, size_t count, bool in_place) {
  const Bytes send = samples(ncclUint8, rank.rank(), count);
  Bytes recv = in_place ? send : Bytes(count);
  const ncclResult_t result = in_place ? ncclBcast(recv.data(), count, ncclUint8, root, rank.comm(), rank.stream())
                                       : ncclBroadcast(rank.rank() == root ? send.data() : nullptr, recv.data(), count,
                                                       ncclUint8, root, rank.comm(), rank.stream());
  ASSERT_EQ(result, ncclSuccess);
  rank.synchronize();
  ASSERT_EQ(recv, samples(ncclUint8, root, count));
}

void reduce(const Rank& rank, int root, size_t count, bool in_place) {
  const Bytes send = samples(ncclFloat32, rank.rank(), count);
  Bytes recv = in_place ? send : Bytes(send.size());
  void* into = rank.rank() == root || in_place ? recv.data() : nullptr;
  ASSERT_EQ(ncclReduce(in_place ? recv.data() : send.data(), into, count, ncclFloat32, ncclSum, root, rank.comm(),
                       rank.stream()),
            ncclSuccess);
  rank.synchronize();
  if (rank.rank() == root) {
    expect_reduced(recv, ncclFloat32, ncclSum, rank.nranks(), count, 0);
  } else if (in_place) {
    ASSERT_EQ(recv, send) << "a rank that is not the root keeps its data";
  }
}

TEST_P(Collective, BroadcastAndReduceFromEveryRoot) {
  with_ranks(GetParam(), [](const Rank& rank) {
    for (int root = 0; root < rank.nranks(); ++root) {
      for (const size_t count : sizes_for(rank.nranks())) {
        broadcast(rank, root, count, root % 2 == 0);
        reduce(rank, root, count, root % 2 == 1);
      }
    }
    broadcast(rank, rank.nranks() - 1, 3 * kBig, false);
    reduce(rank, rank.nranks() - 1, kBig, false);
  });
}

Bytes numbered(int from, int to, size_t count) { return samples(ncclInt32, from * 16 + to, count); }

TEST_P(Collective, AllToAllGatherScatter) {
  with_ranks(GetParam(), [](const Rank& rank) {
    for (const size_t count : {size_t{1}, size_t{1000}, kBig / 4}) {
      const auto nranks = static_cast<size_t>(rank.nranks());
      Bytes send;
      Bytes expected;
      for (int other = 0; other < rank.nranks(); ++other) {
        const Bytes out = numbered(rank.rank(), other, count);
        const Bytes in = numbered(other, rank.rank(), count);
        send.insert(send.end(), out.begin(), out.end());
        expected.insert(expected.end(), in.begin(), in.end());
      }
      Bytes recv(send.size());
      ASSERT_EQ(ncclAlltoAll(send.data(), recv.data(), count, ncclInt32, rank.comm(), rank.stream()), ncclSuccess);
      rank.synchronize();
      ASSERT_EQ(recv, expected);

      const int root = rank.nranks() - 1;
      const Bytes own = numbered(rank.rank(), root, count);
      ASSERT_EQ(ncclGather(own.data(), recv.data(), count, ncclInt32, root, rank.comm(), rank.stream()), ncclSuccess);
      rank.synchronize();
      if (rank.rank() == root) {
        ASSERT_EQ(recv, expected);
      }
      Bytes part(send.size() / nranks);
      ASSERT_EQ(ncclScatter(send.data(), part.data(), count, ncclInt32, root, rank.comm(), rank.stream()), ncclSuccess);
      rank.synchronize();
      ASSERT_EQ(part, numbered(root, rank.rank(), count));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collective, testing::Range(1, 6),
                         [](const auto& ranks) { return "n" + std::to_string(ranks.param); });

}  // namespace
}  // namespace lab::test
