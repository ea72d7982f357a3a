// SPDX-License-Identifier: Apache-2.0
// Jobs are found wherever their library is, before tracing or during it, and by every way of attaching probes.
#include <glob.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/clock.h"
#include "base/file.h"
#include "capture/decode/collective/unique_id.h"
#include "capture/discover/mapping_watch.h"
#include "capture/kernel/bpf_programs.h"
#include "support.h"
#include "wire/collective.h"

namespace stalltrace::capture {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Optional;
using testing::SizeIs;

constexpr int kDiscoveryMs = 600;
constexpr int kScanMs = 2500;  // until all processes are looked at again

class DiscoveryRoot : public testing::Test {
 protected:
  void SetUp() override { ST_NEED_ROOT(); }
};

TEST_F(DiscoveryRoot, AnEarlierProcessHasAnUnknownCommunicatorAndItsEnvironmentsRank) {
  Job job({.environment = {"RANK=6", "LOCAL_RANK=2", "WORLD_SIZE=16"}});
  job.must("init 8 3");
  Trace trace(TracerOptions{});
  job.must("all_reduce 140");
  trace.stop();
  const Collective row = trace.call(job.pid(), 140);
  EXPECT_EQ(row.comm_id_hash, 0U);
  EXPECT_THAT(row.rank, Optional(6));
  EXPECT_THAT(row.nranks, Optional(16));
  EXPECT_EQ(row.rank_source, RankSource::kEnvironment);
  EXPECT_THAT(trace.process(job.pid()).local_rank, Optional(2));
}

TEST_F(DiscoveryRoot, AnEarlierProcessWithoutALauncherHasNoRank) {
  Job job;
  job.must("init 8 3");
  Trace trace(TracerOptions{});
  job.must("all_reduce 141");
  trace.stop();
  EXPECT_EQ(trace.call(job.pid(), 141).rank, std::nullopt);
}

TEST_F(DiscoveryRoot, ALaterJobIsPickedUp) {
  Trace trace(TracerOptions{});
  Job job;
  sleep_ms(kDiscoveryMs);
  job.must("init 8 3");
  job.must("all_reduce 142");
  trace.stop();
  EXPECT_THAT(trace.call(job.pid(), 142).rank, Optional(3));
}

/// Hundreds of mappings in a few milliseconds, as when Python loads PyTorch, while the rings are not read.
TEST_F(DiscoveryRoot, ManyMappingsAtOnceAreAllSeen) {
  constexpr size_t kMappings = 1500;
  auto watch = MappingWatch::open();
  ASSERT_TRUE(watch) << watch.error().what;
  const UniqueFd file(::open(standin_library().c_str(), O_RDONLY | O_CLOEXEC));
  for (size_t i = 0; i < kMappings; ++i) {
    void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    ::munmap(memory, 4096);
  }
  size_t seen = 0;
  const uint64_t lost = (*watch)->drain([&](pid_t pid, const MappedFile& mapping) {
    seen += pid == ::getpid() && mapping.path == fs::canonical(standin_library()) ? 1 : 0;
  });
  EXPECT_EQ(lost, 0U);
  EXPECT_EQ(seen, kMappings);
}

/// A file that was read is not read again for a while, and no longer than that.
TEST_F(DiscoveryRoot, AFileThatBecomesALibraryIsProbed) {
  const fs::path path = fs::path(testing::TempDir()) / "libbecomes_nccl.so";
  std::ofstream(path) << "no library yet";
  Trace trace(TracerOptions{});
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    ::usleep(300'000);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  sleep_ms(2200);
  fs::copy_file(standin_library(), path, fs::copy_options::overwrite_existing);  // in place: the inode stays the same
  Job job({.argv = {standin("standin_job"), path.string()}});
  sleep_ms(kDiscoveryMs);
  job.must("init 8 3");
  job.must("all_reduce 147");
  trace.stop();
  trace.call(job.pid(), 147);
  fs::remove(path);
}

TEST_F(DiscoveryRoot, ALibraryInsideAnotherIsProbed) {
  Trace trace(TracerOptions{});
  Job job({.argv = {standin("standin_job"), standin("libstandin_inside.so")}});
  sleep_ms(kDiscoveryMs);
  job.must("init 8 3");
  job.must("all_reduce 143");
  trace.stop();
  EXPECT_THAT(trace.call(job.pid(), 143).rank, Optional(3));
  EXPECT_EQ(trace.call(job.pid(), 143).comm_ptr, 0xc0de0100U);
}

/// The library's path exists only in the job's own mount namespace, and leads to a file there.
TEST_F(DiscoveryRoot, ALaterJobInAMountNamespaceOfItsOwnIsPickedUp) {
  const fs::path folder = fs::temp_directory_path() / ("capture_root_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  Trace trace(TracerOptions{});
  const std::string script = "mount -t tmpfs none '" + folder.string() + "' && cp '" + standin_library() + "' '" +
                             folder.string() + "/copy.so' && mkdir '" + folder.string() + "/bound' && touch '" +
                             folder.string() + "/bound/libnccl.so.2' && mount --bind '" + folder.string() +
                             "/copy.so' '" + folder.string() + "/bound/libnccl.so.2' && exec '" +
                             standin("standin_job") + "' '" + folder.string() + "/bound/libnccl.so.2'";
  Job job({.argv = {"unshare", "-m", "sh", "-c", script}});
  EXPECT_FALSE(fs::exists(folder / "bound"));
  sleep_ms(kDiscoveryMs);
  job.must("init 8 3");
  job.must("all_reduce 144");
  trace.stop();
  EXPECT_THAT(trace.call(job.pid(), 144).rank, Optional(3));
  fs::remove_all(folder);
}

/// A data loader has the library mapped like its parent, and never calls it.
TEST_F(DiscoveryRoot, AForkedChildIsTracedOnceItMakesACall) {
  Job job;
  job.must("init 8 3");
  Trace trace;
  job.must("all_reduce 149");
  const auto silent = static_cast<int32_t>(job.ask("fork 4000 0"));
  const auto caller = static_cast<int32_t>(job.ask("fork 4000 1"));
  sleep_ms(3000);  // more than a scan of the processes
  trace.stop();
  EXPECT_THAT(trace.call(job.pid(), 149).rank, std::nullopt);
  EXPECT_THAT(trace.calls(caller), SizeIs(1));
  EXPECT_EQ(trace.process(caller).pid, caller);
  const auto processes = *trace.sink().processes();
  for (const Process& process : processes) {
    EXPECT_NE(process.pid, silent);
  }
}

TEST_F(DiscoveryRoot, OnlyTheNamedProcessIsTraced) {
  Job named;
  Job other;
  Trace trace(TracerOptions{.pids = {named.pid()}, .libraries = {standin_library()}});
  named.must("all_reduce 145");
  other.must("all_reduce 146");
  trace.stop();
  EXPECT_THAT(trace.calls(named.pid()), SizeIs(1));
  EXPECT_THAT(trace.calls(other.pid()), SizeIs(0));
}

/// `options` disable features; all calls and their rows must arrive nevertheless.
void expect_perf_events_do(const KernelOptions& options) {
  auto kernel = BpfPrograms::load(options);
  ASSERT_TRUE(kernel) << kernel.error().what;
  EXPECT_FALSE((*kernel)->features().uprobe_multi);
  const auto symbols = find_probe_points(standin_library());
  ASSERT_TRUE(symbols);
  const auto attached = (*kernel)->attach_file(standin_library(), symbols->points);
  ASSERT_TRUE(attached) << attached.error().what;
  Job job;
  job.must("all_calls");
  std::multiset<uint16_t> entries;  // rows of the call table
  std::multiset<uint16_t> returns;
  (*kernel)->consume([&](std::span<const std::byte> bytes) {
    st_header header;
    ASSERT_GE(bytes.size(), sizeof header);
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.tgid != static_cast<uint32_t>(job.pid())) {
      return;
    }
    if (header.type == ST_RECORD_CALL_ENTRY) {
      st_call_entry record;
      std::memcpy(&record, bytes.data(), sizeof record);
      entries.insert(record.row);
    } else if (header.type == ST_RECORD_CALL_RETURN) {
      st_call_return record;
      std::memcpy(&record, bytes.data(), sizeof record);
      returns.insert(record.row);
    }
  });
  EXPECT_EQ(entries.size(), 11U);
  EXPECT_EQ(std::set(entries.begin(), entries.end()).size(), 11U) << "each call has a row of its own";
  EXPECT_EQ(entries, returns);
}

TEST_F(DiscoveryRoot, PerfEventsDoWhereUprobeMultiLinksAreLacking) {
  expect_perf_events_do({.without_uprobe_multi = true});
}

TEST_F(DiscoveryRoot, SmallProgramsDoWhereProbesHaveNoCookies) {
  expect_perf_events_do({.without_attach_cookie = true});
}

std::set<EvidenceKind> missing_on(const KernelOptions& options) {
  const auto kernel = BpfPrograms::load(options);
  EXPECT_TRUE(kernel) << kernel.error().what;
  std::set<EvidenceKind> missing;
  for (const EvidenceChoice& choice : (*kernel)->evidence()) {
    if (choice.state == EvidenceState::kMissing) {
      missing.insert(choice.kind);
    }
  }
  return missing;
}

TEST_F(DiscoveryRoot, ARefusedProgramCostsItsEvidenceOnly) {
  std::set<EvidenceKind> expected = missing_on({});
  EXPECT_FALSE(expected.contains(EvidenceKind::kRetransmits));
  expected.insert(EvidenceKind::kRetransmits);
  EXPECT_EQ(missing_on({.without_programs = {"tcp_retransmit_skb"}}), expected);
  const auto none = BpfPrograms::load({.without_programs = {"call_return"}});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().what, HasSubstr("call_return"));
}

TEST_F(DiscoveryRoot, ADescendantThatIsNotListedForWantOfRoomIsCounted) {
  constexpr pid_t kFirstOfNone = 1 << 22;  // PID_MAX_LIMIT: no process has such a number
  constexpr pid_t kMostListed = 65536;
  KernelOptions options = kernel_options();
  options.only_listed = true;
  const auto kernel = BpfPrograms::load(options);
  ASSERT_TRUE(kernel) << kernel.error().what;
  ASSERT_TRUE((*kernel)->list_process(::getpid()));
  const auto fork_once = [] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  };
  fork_once();
  EXPECT_EQ((*kernel)->losses()[ST_LOSS_SCOPE], 0U);
  pid_t listed = 1;
  while (listed <= kMostListed && (*kernel)->list_process(kFirstOfNone + listed)) {
    ++listed;
  }
  EXPECT_EQ(listed, kMostListed);
  fork_once();
  EXPECT_EQ((*kernel)->losses()[ST_LOSS_SCOPE], 1U);
}

TEST_F(DiscoveryRoot, AProcessWhoseExitIsNotReportedHasEnded) {
  Trace trace({.libraries = {standin_library()}, .kernel = {.without_programs = {"sched_process_exit"}}});
  Job job;
  job.must("init 8 3");
  job.must("all_reduce 142");
  job.send_command("exit 3");
  job.wait();
  sleep_ms(kScanMs);
  trace.stop();
  EXPECT_NE(trace.process(job.pid()).exit_ns, std::nullopt);
  EXPECT_EQ(trace.process(job.pid()).exit_code, std::nullopt) << "it is not known";
}

std::string published_library() {
  glob_t paths{};
  std::string found;
  if (::glob("/usr/local/cuda*/lib*/libnccl.so.2", 0, nullptr, &paths) == 0 && paths.gl_pathc > 0) {
    found = paths.gl_pathv[0];
  }
  ::globfree(&paths);
  return found;
}

TEST_F(DiscoveryRoot, ThePublishedNccl) {
  const std::string library = published_library();
  if (library.empty()) {
    std::puts("SKIP: no published libnccl.so.2 in /usr/local/cuda*/lib*; NVIDIA's own library is not tested here");
    GTEST_SKIP() << "no published libnccl.so.2 on this machine";
  }
  Trace trace(TracerOptions{});
  Job job({.argv = {standin("standin_published_nccl"), library}});
  sleep_ms(kDiscoveryMs);
  job.send_command("go");
  const std::string hex = job.answer();
  const std::string code = job.answer(60'000);
  job.wait();
  sleep_ms(200);
  trace.stop();

  ASSERT_EQ(hex.size(), 2U * ST_UNIQUE_ID_BYTES);
  std::array<std::byte, ST_UNIQUE_ID_BYTES> id{};
  for (size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  const auto calls = trace.calls(job.pid(), Operation::kCommInitRank);
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(std::to_string(calls[0].return_code.value_or(-1)), code);
  EXPECT_EQ(calls[0].comm_id_hash, comm_id_hash(id));
  EXPECT_THAT(calls[0].rank, Optional(0));
  EXPECT_THAT(calls[0].nranks, Optional(1));
  EXPECT_EQ(calls[0].completion, Completion::kCall);
}

}  // namespace
}  // namespace stalltrace::capture
