// SPDX-License-Identifier: Apache-2.0
// A profiler plugin's input: every event, with parents, order, threads and counts, in both interface versions.
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "../ranks.h"
#include "history.h"

namespace lab::test {
namespace {

constexpr int kEverything = 0xfff;
constexpr int kV4Events = 0xff;
constexpr size_t kSlice = 128U << 10U;

/// One of the recorder libraries, used as the plugin of communicators made during its lifetime.
class Plugin {
 public:
  explicit Plugin(int version, int mask = kEverything, int result = 0)
      : path_(std::string(RECORDER_FOLDER) + "/librecorder-v" + std::to_string(version) + ".so"),
        library_(dlopen(path_.c_str(), RTLD_NOW)) {
    EXPECT_NE(library_, nullptr) << dlerror();
    recorder_ = static_cast<Recorder*>(dlsym(library_, "recorder"));
    recorder_->reset(mask, result);
    setenv("NCCL_PROFILER_PLUGIN", path_.c_str(), 1);
  }
  ~Plugin() { dlclose(library_); }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  [[nodiscard]] History history() const { return History(recorder_->entries()); }

 private:
  std::string path_;
  void* library_;
  Recorder* recorder_;
};

using Floats = std::vector<float>;

void all_reduce(const Rank& rank, Floats& data) {
  ASSERT_EQ(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, rank.comm(), rank.stream()),
            ncclSuccess);
}

int64_t steady_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::vector<std::string> lines(std::initializer_list<std::string> list) { return list; }

TEST(Profiler, TheCallingThreadReportsInNcclsOrder) {
  const Plugin plugin(5);
  pthread_t caller{};
  with_ranks(2, [&](const Rank& rank) {
    if (rank.rank() == 0) {
      caller = pthread_self();
    }
    Floats data(1000, 1);
    all_reduce(rank, data);
    rank.synchronize();
  });
  EXPECT_EQ(plugin.history().calls_of(caller),
            lines({"start 256", "state 23", "start 512", "stop 512",         // GroupApi, CollApi
                   "state 24", "start 2048", "stop 2048",                    // the launch
                   "start 1", "start 2", "stop 2", "stop 1", "stop 256"}));  // Group, Coll: enqueued
}

TEST(Profiler, ACollectiveIsAGroupACallATaskAndItsTransfers) {
  const Plugin plugin(5);
  constexpr size_t kCount = 300'000;
  with_ranks(3, [&](const Rank& rank) {
    Floats data(kCount, 1);
    all_reduce(rank, data);
    rank.synchronize();
    EXPECT_EQ(data, Floats(kCount, 3));
  });
  const History history = plugin.history();
  for (int rank = 0; rank < 3; ++rank) {
    const Event group_api = history.one(abi::kEventGroupApi, rank);
    const Event coll_api = history.one(abi::kEventCollApi, rank);
    const Event coll = history.one(abi::kEventColl, rank);
    EXPECT_EQ(group_api.start.depth, 1);
    EXPECT_EQ(coll_api.start.parent, group_api.start.handle);
    EXPECT_EQ(coll_api.start.function, "AllReduce");
    EXPECT_EQ(coll.start.parent, coll_api.start.handle);
    EXPECT_EQ(coll.start.group, history.one(abi::kEventGroup, rank).start.handle);
    EXPECT_EQ(history.one(abi::kEventKernelLaunch, rank).start.parent, group_api.start.handle);
    EXPECT_EQ(coll.start.function, "AllReduce");
    EXPECT_EQ(coll.start.count, kCount);
    EXPECT_EQ(coll.start.datatype, "ncclFloat32");
    EXPECT_EQ(coll.start.sequence, 0U);

    const auto operations = history.children(coll, abi::kEventProxyOp);
    ASSERT_EQ(operations.size(), 2U);
    EXPECT_FALSE(operations[0].start.is_send) << "NCCL hands on the receive first";
    EXPECT_EQ(operations[0].start.peer, (rank + 2) % 3);
    EXPECT_EQ(operations[1].start.peer, (rank + 1) % 3);
    const Event kernel = history.children(coll, abi::kEventKernelCh).at(0);
    ASSERT_EQ(kernel.states.size(), 1U);
    EXPECT_GT(kernel.states[0].timer_ns, kernel.start.timer_ns);
    for (const Event& operation : operations) {
      EXPECT_FALSE(pthread_equal(operation.start.thread, coll.start.thread)) << "reported by the proxy thread";
      EXPECT_EQ(operation.state_numbers(), std::vector<int>{abi::kStateOpInProgress});
      EXPECT_GE(kernel.end_ns(), operation.end_ns());
    }
  }
  for (const Event& event : history.events()) {
    EXPECT_EQ(event.stops.size(), 1U) << "type " << event.start.type;
  }
  EXPECT_EQ(history.calls(Call::kInit), 3);
  EXPECT_EQ(history.calls(Call::kFinalize), 3);
  EXPECT_EQ(history.entries().back().call, Call::kFinalize);
}

TEST(Profiler, EveryStepGoesThroughItsStatesAndTheBytesAddUp) {
  const Plugin plugin(5);
  constexpr size_t kBytes = 24 * kSlice;
  with_ranks(2, [&](const Rank& rank) {
    Floats data(kBytes / sizeof(float), 1);
    all_reduce(rank, data);
    rank.synchronize();
  });
  const History history = plugin.history();
  const std::vector<int> sends{abi::kStateSendGpuWait, abi::kStateSendPeerWait, abi::kStateSendWait};
  const std::vector<int> recvs{abi::kStateRecvWait, abi::kStateRecvFlushWait, abi::kStateRecvGpuWait};
  for (int rank = 0; rank < 2; ++rank) {
    for (const Event& operation : history.of(abi::kEventProxyOp, rank)) {
      const auto steps = history.children(operation, abi::kEventProxyStep);
      EXPECT_EQ(steps.size(), static_cast<size_t>(operation.start.steps));
      size_t bytes = 0;
      for (size_t i = 0; i < steps.size(); ++i) {
        EXPECT_EQ(steps[i].start.step, static_cast<int>(i));
        EXPECT_EQ(steps[i].state_numbers(), operation.start.is_send ? sends : recvs);
        EXPECT_LE(steps[i].end_ns(), operation.end_ns());
        EXPECT_GE(steps[i].start.time_ns, operation.entered_ns(abi::kStateOpInProgress));
        bytes += steps[i].states.back().bytes;
        if (i >= 8) {
          EXPECT_GE(steps[i].start.time_ns, steps[i - 8].end_ns()) << "eight steps at most are on their way";
        }
      }
      EXPECT_EQ(bytes, kBytes) << "a ring of two moves all of it once";  // 2 (n - 1) / n
    }
  }
}

TEST(Profiler, OperationsOfAGroupShareOneAndAreCountedByFunction) {
  const Plugin plugin(5);
  with_ranks(2, [&](const Rank& rank) {
    Floats a(1000, 1);
    Floats b(2000, 1);
    Floats got(300);
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      all_reduce(rank, a);
      ASSERT_EQ(ncclBroadcast(b.data(), b.data(), b.size(), ncclFloat32, 1, rank.comm(), rank.stream()), ncclSuccess);
      ASSERT_EQ(ncclSend(a.data(), 300, ncclFloat32, 1 - rank.rank(), rank.comm(), rank.stream()), ncclSuccess);
      ASSERT_EQ(ncclRecv(got.data(), 300, ncclFloat32, 1 - rank.rank(), rank.comm(), rank.stream()), ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    }
    rank.synchronize();
  });
  const History history = plugin.history();
  const auto colls = history.of(abi::kEventColl, 0);
  ASSERT_EQ(colls.size(), 4U);
  EXPECT_EQ(colls[0].start.function, "AllReduce");
  EXPECT_EQ(colls[1].start.function, "Broadcast");
  EXPECT_EQ(colls[1].start.datatype, "ncclInt8") << "what is only copied moves as bytes";
  EXPECT_EQ(colls[1].start.count, 8000U);
  EXPECT_EQ(colls[1].start.sequence, 0U) << "each function is counted by itself";
  EXPECT_EQ(colls[2].start.sequence, 1U);
  EXPECT_EQ(colls[3].start.sequence, 1U);
  const auto group_apis = history.of(abi::kEventGroupApi, 0);
  ASSERT_EQ(group_apis.size(), 2U);
  EXPECT_EQ(group_apis[0].start.depth, 2) << "the call's own group within the user's";
  EXPECT_EQ(history.children(group_apis[0], abi::kEventCollApi).size(), 2U);
  EXPECT_EQ(history.children(group_apis[0], abi::kEventP2pApi).size(), 2U);
  EXPECT_EQ(history.of(abi::kEventGroup, 0).size(), 2U) << "one for each launch";
  const auto p2ps = history.of(abi::kEventP2p, 0);
  ASSERT_EQ(p2ps.size(), 4U);
  EXPECT_EQ(p2ps[0].start.function, "Send");
  EXPECT_EQ(p2ps[1].start.function, "Recv");
  EXPECT_EQ(p2ps[0].start.peer, 1);
  for (const Event& p2p : p2ps) {
    const auto operations = history.children(p2p, abi::kEventProxyOp);
    ASSERT_EQ(operations.size(), 1U);
    EXPECT_EQ(operations[0].start.is_send, p2p.start.function == "Send");
    EXPECT_EQ(operations[0].stops.size(), 1U);
  }
}

TEST(Profiler, OfWhatARankSendsToItselfNothingIsReportedButThatItIsEnqueued) {
  const Plugin plugin(5);
  with_ranks(2, [&](const Rank& rank) {
    Floats send(200, 1);
    Floats receive(200);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < 2; ++peer) {
      ASSERT_EQ(ncclSend(send.data() + 100 * peer, 100, ncclFloat32, peer, rank.comm(), rank.stream()), ncclSuccess);
      ASSERT_EQ(ncclRecv(receive.data() + 100 * peer, 100, ncclFloat32, peer, rank.comm(), rank.stream()), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    rank.synchronize();
  });
  const History history = plugin.history();
  const auto p2ps = history.of(abi::kEventP2p, 0);
  ASSERT_EQ(p2ps.size(), 4U);
  for (const Event& p2p : p2ps) {
    const size_t parts = p2p.start.peer == 0 ? 0 : 1;
    EXPECT_EQ(p2p.stops.size(), 1U);
    EXPECT_EQ(history.children(p2p, abi::kEventProxyOp).size(), parts);
    EXPECT_EQ(history.children(p2p, abi::kEventKernelCh).size(), parts);
  }
}

TEST(Profiler, Version4HearsNoApiEventsAndTasksAreChildrenOfTheGroup) {
  const Plugin plugin(4, kV4Events);
  pthread_t caller{};
  with_ranks(2, [&](const Rank& rank) {
    if (rank.rank() == 0) {
      caller = pthread_self();
    }
    Floats data(1000, 1);
    all_reduce(rank, data);
    rank.synchronize();
  });
  const History history = plugin.history();
  EXPECT_EQ(history.calls_of(caller), lines({"start 1", "start 2", "stop 2", "stop 1"}));
  const Event coll = history.one(abi::kEventColl, 0);
  EXPECT_EQ(coll.start.parent, history.one(abi::kEventGroup, 0).start.handle);
  EXPECT_EQ(coll.start.count, 1000U);
  EXPECT_EQ(coll.start.datatype, "ncclFloat32");
  EXPECT_EQ(history.children(coll, abi::kEventProxyOp).size(), 2U);
  EXPECT_EQ(history.children(coll, abi::kEventKernelCh).size(), 1U);
}

TEST(Profiler, TheMaskChoosesAndParentsComeWithTheirChildren) {
  struct Case {
    int mask;
    std::set<uint64_t> types;
  };
  const Case cases[] = {
      {0, {}},
      {abi::kEventColl, {abi::kEventGroupApi, abi::kEventCollApi, abi::kEventGroup, abi::kEventColl}},
      {abi::kEventProxyOp,
       {abi::kEventGroupApi, abi::kEventCollApi, abi::kEventP2pApi, abi::kEventGroup, abi::kEventColl, abi::kEventP2p,
        abi::kEventProxyOp}},
      {abi::kEventKernelLaunch, {abi::kEventGroupApi, abi::kEventKernelLaunch}},
      {abi::kEventProxyCtrl, {abi::kEventProxyCtrl}},
  };
  for (const Case& one : cases) {
    const Plugin plugin(5, one.mask);
    with_ranks(2, [&](const Rank& rank) {
      Floats data(1000, 1);
      all_reduce(rank, data);
      ASSERT_EQ(ncclAlltoAll(data.data(), data.data() + 500, 100, ncclFloat32, rank.comm(), rank.stream()),
                ncclSuccess);
      rank.synchronize();
    });
    const History history = plugin.history();
    EXPECT_EQ(history.types(0), one.types) << "mask " << one.mask;
    EXPECT_EQ(history.calls(Call::kInit), 2);
    EXPECT_EQ(history.calls(Call::kFinalize), 2);
  }
}

TEST(Profiler, ASendWaitsForTheDeviceUntilTheStreamGetsThere) {
  const Plugin plugin(5);
  int64_t released_ns = 0;
  with_ranks(2, [&](const Rank& rank) {
    Floats data(1000, 1);
    if (rank.rank() == 0) {
      ASSERT_EQ(cudaLaunchHostFunc(
                    rank.stream(),
                    [](void* at) {
                      std::this_thread::sleep_for(std::chrono::milliseconds(150));
                      *static_cast<int64_t*>(at) = steady_ns();
                    },
                    &released_ns),
                cudaSuccess);
    }
    all_reduce(rank, data);
    rank.synchronize();
  });
  const History history = plugin.history();
  const Event send = history.children(history.of(abi::kEventProxyOp, 0)[1], abi::kEventProxyStep)[0];
  EXPECT_LT(send.entered_ns(abi::kStateSendGpuWait), released_ns - 100'000'000) << "posted while the device is busy";
  EXPECT_GE(send.entered_ns(abi::kStateSendPeerWait), released_ns);
  EXPECT_GE(history.one(abi::kEventKernelCh, 0).start.time_ns, released_ns);
  const Event other = history.children(history.of(abi::kEventProxyOp, 1)[0], abi::kEventProxyStep)[0];
  EXPECT_GE(other.entered_ns(abi::kStateRecvFlushWait), released_ns) << "the other rank waits for the network";
}

TEST(Profiler, AReceiveWaitsForALateRank) {
  const Plugin plugin(5);
  int64_t arrived_ns = 0;
  with_ranks(2, [&](const Rank& rank) {
    Floats data(1000, 1);
    if (rank.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      arrived_ns = steady_ns();
    }
    all_reduce(rank, data);
    rank.synchronize();
  });
  const History history = plugin.history();
  const Event recv = history.children(history.of(abi::kEventProxyOp, 0)[0], abi::kEventProxyStep)[0];
  EXPECT_LT(recv.entered_ns(abi::kStateRecvWait), arrived_ns - 100'000'000);
  EXPECT_GE(recv.entered_ns(abi::kStateRecvFlushWait), arrived_ns);
}

TEST(Profiler, TheProxyReportsOfItself) {
  const Plugin plugin(5, abi::kEventProxyCtrl | abi::kEventProxyOp);
  with_ranks(2, [&](const Rank& rank) {
    Floats data(1000, 1);
    for (int i = 0; i < 3; ++i) {
      all_reduce(rank, data);
      rank.synchronize();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  const History history = plugin.history();
  int appended = 0;
  int sleeps = 0;
  for (const Event& event : history.of(abi::kEventProxyCtrl, 0)) {
    const auto states = event.state_numbers();
    if (states == std::vector<int>{abi::kStateCtrlAppend, abi::kStateCtrlAppendEnd}) {
      appended += event.states.back().operations;
    }
    sleeps += states == std::vector<int>{abi::kStateCtrlSleep, abi::kStateCtrlWakeup} ? 1 : 0;
  }
  EXPECT_EQ(appended, 6) << "a send and a receive each";
  EXPECT_GE(sleeps, 3);
}

TEST(Profiler, AnAbortedCollectiveStaysOpen) {
  const Plugin plugin(5);
  with_ranks(2, [&](Rank& rank) {
    Floats data(1000, 1);
    if (rank.rank() == 0) {
      all_reduce(rank, data);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ASSERT_EQ(ncclCommAbort(rank.comm()), ncclSuccess);
      rank.synchronize();
      rank.forget_comm();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  const History history = plugin.history();
  EXPECT_EQ(history.one(abi::kEventColl, 0).stops.size(), 1U) << "it was enqueued";
  for (const Event& operation : history.of(abi::kEventProxyOp, 0)) {
    EXPECT_TRUE(operation.stops.empty());
  }
  EXPECT_TRUE(history.one(abi::kEventKernelCh, 0).stops.empty());
  EXPECT_EQ(history.calls(Call::kFinalize), 2);
}

TEST(Profiler, EachCommunicatorIsIntroduced) {
  const Plugin plugin(5, 0);
  const ncclUniqueId id = new_id();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.commName = "world";
      ncclComm_t comm = nullptr;
      ncclComm_t part = nullptr;
      ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), ncclSuccess);
      ASSERT_EQ(ncclCommSplit(comm, rank, 0, &part, nullptr), ncclSuccess);
      ASSERT_EQ(ncclCommDestroy(part), ncclSuccess);
      ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
    });
  }
  threads.clear();
  std::set<uint64_t> hashes;
  int worlds = 0;
  const History history = plugin.history();
  for (const Entry& entry : history.entries()) {
    if (entry.call == Call::kInit) {
      hashes.insert(entry.comm_hash);
      EXPECT_EQ(entry.comm_name, "world") << "a split takes its parent's name";
      EXPECT_EQ(entry.nodes, 1);
      worlds += entry.ranks == 2 ? 1 : 0;
    }
  }
  EXPECT_EQ(hashes.size(), 3U) << "the world and two splits";
  EXPECT_EQ(worlds, 2);
  EXPECT_EQ(history.calls(Call::kFinalize), 4);
}

TEST(Profiler, ACollectiveOfOneRankIsNone) {
  const Plugin plugin(5);
  with_ranks(1, [&](const Rank& rank) {
    Floats data(1000, 1);
    all_reduce(rank, data);
    rank.synchronize();
  });
  EXPECT_FALSE(plugin.history().types(0).contains(abi::kEventColl)) << "NCCL copies and reports nothing";
}

TEST(Profiler, APluginThatRefusesIsLeftAlone) {
  const Plugin plugin(5, kEverything, 1);
  with_ranks(2, [&](const Rank& rank) {
    Floats data(1000, 1);
    all_reduce(rank, data);
    rank.synchronize();
    EXPECT_EQ(data, Floats(1000, 2));
  });
  const History history = plugin.history();
  EXPECT_EQ(history.entries().size(), 2U) << "two times init, no more";
}

/// Runs in a separate process: makes a communicator with this NCCL_PROFILER_PLUGIN, and prints NCCL's log to stderr.
void run_with_plugin_named(const char* name) {
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT,ENV", 1);
  setenv("NCCL_DEBUG_FILE", "/dev/stderr", 1);
  if (name == nullptr) {
    unsetenv("NCCL_PROFILER_PLUGIN");
  } else {
    setenv("NCCL_PROFILER_PLUGIN", name, 1);
  }
  bool right = false;
  with_ranks(2, [&](const Rank& rank) {
    Floats data(1000, 1);
    all_reduce(rank, data);
    rank.synchronize();
    if (rank.rank() == 0) {
      right = data == Floats(1000, 2);
    }
  });
  _exit(right ? 0 : 1);
}

/// A test process of its own, whose library path holds the recorders.
class Loading : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("LD_LIBRARY_PATH", RECORDER_FOLDER, 1);
  }
};

TEST_F(Loading, ANameLeadsToALibrary) {
  EXPECT_EXIT(run_with_plugin_named("recorder"), testing::ExitedWithCode(0),
              "NCCL_PROFILER_PLUGIN set by environment to recorder"
              ".*PROFILER/Plugin: Loaded recorder .v5."
              ".*Successfully loaded external profiler plugin .*libnccl-profiler-recorder.so"
              ".*PROFILER/Plugin: Closing profiler plugin recorder");
}

TEST_F(Loading, WithoutOneTheJobGoesOn) {
  EXPECT_EXIT(run_with_plugin_named(nullptr), testing::ExitedWithCode(0),
              "PROFILER/Plugin: Could not find: libnccl-profiler.so");
  EXPECT_EXIT(run_with_plugin_named("absent"), testing::ExitedWithCode(0),
              "PROFILER/Plugin: Could not find: absent libnccl-profiler-absent.so");
  EXPECT_EXIT(run_with_plugin_named("/nowhere/libnccl-profiler.so"), testing::ExitedWithCode(0),
              "PROFILER/Plugin: Could not find: /nowhere/libnccl-profiler.so");
}

TEST_F(Loading, NoneIsNoPlugin) {
  EXPECT_EXIT(run_with_plugin_named("none"), testing::ExitedWithCode(0),
              "NCCL_PROFILER_PLUGIN set by environment to none");
}

TEST_F(Loading, ALibraryWithoutTheInterfaceIsUnsupported) {
  EXPECT_EXIT(run_with_plugin_named("libm.so.6"), testing::ExitedWithCode(0),
              "External profiler plugin .*libm.so.6 is unsupported");
}

}  // namespace
}  // namespace lab::test
