// SPDX-License-Identifier: Apache-2.0
// The library's error handling, messages, and exported symbols.
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "ranks.h"

namespace lab::test {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Launch, ReturnsBeforeThePeersArrive) {
  with_ranks(2, [](const Rank& rank) {
    std::vector<float> data(1000, 1.0F);
    if (rank.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    const auto before = Clock::now();
    ASSERT_EQ(ncclAllReduce(data.data(), data.data(), 1000, ncclFloat32, ncclSum, rank.comm(), rank.stream()),
              ncclSuccess);
    const auto launched = Clock::now();
    if (rank.rank() == 0) {
      EXPECT_LT(launched - before, std::chrono::milliseconds(100));
      EXPECT_EQ(cudaStreamQuery(rank.stream()), cudaErrorNotReady);
    }
    rank.synchronize();
    EXPECT_EQ(data, std::vector<float>(1000, 2.0F));
  });
}

TEST(Arguments, AreChecked) {
  with_ranks(2, [](const Rank& rank) {
    std::vector<float> data(4);
    float* buffer = data.data();
    const auto all_reduce = [&](const void* send, int type, int op, ncclComm_t comm) {
      return ncclAllReduce(send, buffer, 4, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(op), comm,
                           rank.stream());
    };
    EXPECT_EQ(all_reduce(buffer, ncclFloat32, ncclSum, nullptr), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(nullptr, ncclFloat32, ncclSum, rank.comm()), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(buffer, ncclFloat8e4m3, ncclSum, rank.comm()), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(buffer, 12, ncclSum, rank.comm()), ncclInvalidArgument);
    EXPECT_EQ(all_reduce(buffer, ncclFloat32, 5, rank.comm()), ncclInvalidArgument);
    EXPECT_EQ(ncclBroadcast(buffer, buffer, 4, ncclFloat32, 2, rank.comm(), rank.stream()), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(buffer, 4, ncclFloat32, -1, rank.comm(), rank.stream()), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(buffer, 4, ncclFloat32, rank.rank(), rank.comm(), rank.stream()), ncclInvalidUsage);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);

    ASSERT_EQ(ncclGroupStart(), ncclSuccess);  // one bad call: the group launches nothing
    EXPECT_EQ(ncclRecv(buffer, 4, ncclFloat32, 1 - rank.rank(), rank.comm(), rank.stream()), ncclSuccess);
    EXPECT_EQ(ncclSend(buffer, 4, ncclFloat32, 7, rank.comm(), rank.stream()), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);

    EXPECT_EQ(all_reduce(buffer, ncclFloat32, ncclSum, rank.comm()), ncclSuccess);  // none of this harmed anything
    rank.synchronize();
  });
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, ncclUniqueId{}, 2), ncclInvalidArgument);
  EXPECT_STREQ(ncclGetLastError(nullptr), "Invalid rank requested : 2/2");
  EXPECT_EQ(ncclCommInitRank(&comm, 2, ncclUniqueId{}, 0), ncclInvalidArgument);
  ncclConfig_t config{};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, ncclUniqueId{}, 0, &config), ncclInvalidArgument);
}

TEST(Abort, EndsAnOperationWhosePeerNeverComes) {
  with_ranks(2, [](Rank& rank) {
    std::vector<float> data(1000);
    if (rank.rank() == 0) {
      ASSERT_EQ(ncclAllReduce(data.data(), data.data(), 1000, ncclFloat32, ncclSum, rank.comm(), rank.stream()),
                ncclSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_EQ(cudaStreamQuery(rank.stream()), cudaErrorNotReady);
      EXPECT_EQ(ncclCommAbort(rank.comm()), ncclSuccess);
      rank.forget_comm();
      rank.synchronize();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
    }
  });
}

TEST(AsyncError, APeerThatLeavesIsARemoteError) {
  with_ranks(2, [](Rank& rank) {
    if (rank.rank() == 1) {
      EXPECT_EQ(ncclCommAbort(rank.comm()), ncclSuccess);
      rank.forget_comm();
      return;
    }
    std::vector<float> data(1'000'000);
    ASSERT_EQ(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, rank.comm(), rank.stream()),
              ncclSuccess);
    ncclResult_t error = ncclSuccess;
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (error == ncclSuccess && Clock::now() < deadline) {
      ASSERT_EQ(ncclCommGetAsyncError(rank.comm(), &error), ncclSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(error, ncclRemoteError);
    EXPECT_EQ(cudaStreamQuery(rank.stream()), cudaErrorNotReady) << "it waits for an abort";
    EXPECT_EQ(ncclAllReduce(data.data(), data.data(), 1, ncclFloat32, ncclSum, rank.comm(), rank.stream()),
              ncclRemoteError);
    EXPECT_EQ(ncclCommAbort(rank.comm()), ncclSuccess);
    rank.forget_comm();
    rank.synchronize();
  });
}

/// An id whose root does not exist.
ncclUniqueId dead_id() {
  ncclUniqueId id = new_id();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(1);
  std::memcpy(id.internal + 8, &address, sizeof(address));
  return id;
}

TEST(Init, GivesUpOnARootThatRefuses) {
  const ncclUniqueId id = dead_id();
  setenv("NCCL_SOCKET_RETRY_CNT", "2", 1);
  setenv("NCCL_SOCKET_RETRY_SLEEP_MSEC", "10", 1);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 1), ncclRemoteError);
  EXPECT_EQ(comm, nullptr);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("exceeded error retry count after 3 attempts"),
            std::string::npos);
  unsetenv("NCCL_SOCKET_RETRY_CNT");
  unsetenv("NCCL_SOCKET_RETRY_SLEEP_MSEC");
}

TEST(Init, RefusesAnInterfaceThatIsNotThere) {
  const ncclUniqueId id = new_id();
  setenv("NCCL_SOCKET_IFNAME", "=l", 1);  // `=` wants the whole name
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidUsage);
  setenv("NCCL_SOCKET_IFNAME", "^lo,nothing-else", 1);
  ncclUniqueId other{};
  if (ncclGetUniqueId(&other) == ncclSuccess) {  // another interface than lo exists, and was used
    sockaddr_in address{};
    std::memcpy(&address, other.internal + 8, sizeof(address));
    EXPECT_NE(address.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  }
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
}

TEST(UniqueId, HoldsMagicAddressAndZeros) {
  const ncclUniqueId id = new_id();
  const ncclUniqueId other = new_id();
  EXPECT_NE(std::memcmp(&id, &other, 8), 0);
  sockaddr_in address{};
  std::memcpy(&address, id.internal + 8, sizeof(address));
  EXPECT_EQ(address.sin_family, AF_INET);
  EXPECT_EQ(address.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_NE(address.sin_port, 0);
  for (size_t i = 8 + sizeof(sockaddr_in6); i < sizeof(id.internal); ++i) {
    EXPECT_EQ(id.internal[i], 0) << i;
  }
}

TEST(Exports, EveryFunctionIsAWeakAliasOfItsTwin) {
  for (const char* name : {"ncclAllReduce", "ncclCommInitRank", "ncclGroupEnd", "ncclGetLastError", "ncclScatter"}) {
    void* function = dlsym(RTLD_DEFAULT, name);
    EXPECT_NE(function, nullptr) << name;
    EXPECT_EQ(function, dlsym(RTLD_DEFAULT, (std::string("p") + name).c_str())) << name;
  }
}

/// An independent implementation of NCCL's hash of a unique id.
unsigned long long hash_of(const ncclUniqueId& id) {
  uint64_t a = 1 ^ sizeof(id);
  uint64_t b = 1;
  for (size_t i = 0; i < sizeof(id); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, id.internal + i, 8);
    a += b;
    b ^= a;
    a = (a ^ (a >> 31)) * 0x9de62bbc8cef3ce3ULL;
    b = (b ^ (b >> 32)) * 0x485cd6311b599e79ULL;
    a += word;
  }
  uint64_t h = (a ^ (a >> 31)) * 0xbac3bd562846de6bULL;
  h += b;
  return (h ^ (h >> 32)) * 0x995a187a14e7b445ULL;
}

TEST(DebugLog, HasTheFormOfTheRealOne) {
  const std::string path = testing::TempDir() + "lab_nccl_log." + std::to_string(getpid());
  std::remove(path.c_str());
  // In a separate process, since the log reads its settings once. The child reports only through the file.
  const pid_t child = fork();
  if (child == 0) {
    setenv("LAB_NCCL_LOG_CHILD", "1", 1);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,COLL", 1);
    setenv("NCCL_DEBUG_FILE", path.c_str(), 1);
    execl("/proc/self/exe", "test", "--gtest_also_run_disabled_tests", "--gtest_filter=DebugLog.DISABLED_Child",
          nullptr);
    _exit(99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::remove(path.c_str());
  EXPECT_NE(text.str().find("NCCL version 2.28.9"), std::string::npos);
  EXPECT_NE(text.str().find(":" + std::to_string(child) + ":"), std::string::npos);
  EXPECT_NE(text.str().find("[0] NCCL INFO AllReduce: opCount 0 sendbuff 0x"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find(" count 3 datatype 7 op 0 root 0 comm 0x"), std::string::npos);
  EXPECT_NE(text.str().find(" [nranks=1] stream "), std::string::npos);
  const std::string prefix = "reported commId 0x";
  const size_t at = text.str().find(prefix);
  ASSERT_NE(at, std::string::npos);
  const std::string hash = text.str().substr(at + prefix.size(), text.str().find('\n', at) - at - prefix.size());
  EXPECT_NE(text.str().find("rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1000 commId 0x" + hash + " - Init COMPLETE"),
            std::string::npos)
      << text.str();
}

TEST(DebugLog, DISABLED_Child) {
  if (std::getenv("LAB_NCCL_LOG_CHILD") == nullptr) {
    GTEST_SKIP() << "runs only as the child of DebugLog.HasTheFormOfTheRealOne";
  }
  const ncclUniqueId id = new_id();
  {
    const Rank rank(0, 1, id);
    std::vector<float> data(3);
    ncclAllReduce(data.data(), data.data(), 3, ncclFloat32, ncclSum, rank.comm(), rank.stream());
    rank.synchronize();
  }
  FILE* log = std::fopen(std::getenv("NCCL_DEBUG_FILE"), "a");
  std::fprintf(log, "reported commId 0x%llx\n", hash_of(id));
  std::fclose(log);
}

}  // namespace
}  // namespace lab::test
