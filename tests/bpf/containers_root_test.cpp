// SPDX-License-Identifier: Apache-2.0
// A rank in a container, as far as it concerns its profiler file: a mount namespace with its own shared-memory folder,
// and a pid namespace in which the rank has another number. Followed live from outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>

#include "base/process/procfs.h"
#include "capture/decode/collective/unique_id.h"
#include "support.h"

namespace stalltrace::capture {
namespace {

class ContainersRoot : public testing::Test {
 protected:
  void SetUp() override {
    ST_NEED_ROOT();
    for (size_t i = 0; i < sizeof id_; ++i) {
      id_[i] = static_cast<std::byte>(i + 1);
    }
  }

  /// The stand-in's rank as `setup` leaves it: the only child of the program that makes the namespaces.
  Job container(const std::string& setup) {
    char hash[32];
    (void)std::snprintf(hash, sizeof hash, "%lx", nccl_comm_hash(id_));
    const std::string rank =
        "exec '" + standin("standin_progress") + "' '" + standin_library() + "' '" STALLTRACE_PLUGIN "' " + hash;
    return Job({.argv = {"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                         "mount -t tmpfs none /dev/shm && " + setup + rank},
                .environment = {"RANK=0", "WORLD_SIZE=3"}});
  }
  static pid_t child_of(pid_t parent) {
    const Procfs procfs;
    for (const pid_t pid : procfs.pids()) {
      if (procfs.parent(pid) == parent) {
        return pid;
      }
    }
    return 0;
  }
  /// The rank's collectives, seen from outside; the job and its namespaces have ended by then.
  void follow(const std::string& setup) {
    Trace trace;
    auto job = container(setup);
    const pid_t pid = child_of(job.pid());
    ASSERT_GT(pid, 1);
    ASSERT_EQ(Procfs().inner_pid(pid), 1) << "it is the first of its pid namespace";
    job.must("init 3 0");
    sleep_ms(300);
    job.send_command("run 1 0");
    ASSERT_NE(job.answer(), "");
    sleep_ms(1500);
    job.signal(SIGKILL);
    job.wait();
    sleep_ms(1500);
    trace.stop();

    std::vector<Collective> rows = trace.calls(pid, Operation::kAllReduce);
    EXPECT_EQ(rows.size(), 4U);
    for (const Collective& row : rows) {
      EXPECT_EQ(row.completion, Completion::kProfiler);
      EXPECT_EQ(row.comm_id_hash, comm_id_hash(id_));
      EXPECT_NE(row.tid, 0);
      EXPECT_NE(row.tid, 1) << "a number of its own namespace";
    }
    EXPECT_EQ(trace.process(pid).rank, 0);
    std::vector<ProxyStep> steps;
    ASSERT_TRUE(trace.sink().proxy_steps({}, [&](const ProxyStep& row) { steps.push_back(row); }));
    EXPECT_FALSE(steps.empty());
    EXPECT_TRUE(std::ranges::all_of(steps, [&](const ProxyStep& row) { return row.pid == pid; }));
    // Its profiler file must not be taken for another process's, although its number there is init's here.
    const auto processes = trace.sink().processes();
    EXPECT_EQ(std::ranges::count(*processes, 1, &Process::pid), 0);
    EXPECT_TRUE(std::ranges::none_of(*processes, [](const Process& row) { return row.pid > 1 << 22; }));
  }

  std::byte id_[128];
};

TEST_F(ContainersRoot, AFileInASharedMemoryFolderOfItsOwn) { follow(""); }

TEST_F(ContainersRoot, AFileInAFolderThatIsALinkThere) {
  follow("mkdir /dev/shm/real && ln -s /dev/shm/real /dev/shm/link && export STALLTRACE_DIR=/dev/shm/link && ");
}

}  // namespace
}  // namespace stalltrace::capture
