// SPDX-License-Identifier: Apache-2.0
// While a hang is explained, which may take minutes, the evidence is cared for as before.
#include "cli/run/run_evidence.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/handle.h"
#include "blackbox/testing/made_profiler_file.h"

namespace stalltrace::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr const char* kName = "stalltrace-1-1.profiler";

/// A console whose reader does not read, so that the analysis waits in the middle of its report.
class FullConsole {
 public:
  FullConsole() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_end_ = UniqueFd(ends[0]);
    stream_ = ::fdopen(ends[1], "w");
    std::setvbuf(stream_, nullptr, _IONBF, 0);
  }
  ~FullConsole() {
    read_end_.reset();
    std::fclose(stream_);
  }
  FullConsole(const FullConsole&) = delete;
  FullConsole& operator=(const FullConsole&) = delete;

  [[nodiscard]] std::FILE* stream() const { return stream_; }
  void fill() {
    const int end = ::fileno(stream_);
    ::fcntl(end, F_SETFL, O_NONBLOCK);
    while (::write(end, ".", 1) == 1) {
    }
    ::fcntl(end, F_SETFL, 0);
  }
  void read_on() {
    char bytes[4096];
    while (::read(read_end_.get(), bytes, sizeof bytes) == sizeof bytes) {
    }
  }

 private:
  UniqueFd read_end_;
  std::FILE* stream_ = nullptr;
};

bool appears(const std::string& path) {
  for (int i = 0; i < 500 && !fs::exists(path); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  return fs::exists(path);
}

TEST(RunEvidence, AskedToEndWhileAHangIsExplainedTheProfilerFilesAreSaved) {
  const std::string path = "/dev/shm/run_evidence_test." + std::to_string(::getpid());
  {
    auto folder = launch::claim_run_folder(path);
    ASSERT_TRUE(folder) << folder.error().what;
    auto ends = launch::Channel::make();
    ASSERT_TRUE(ends);
    launch::WorkerSide side{.channel = std::move(ends->second), .stop = UniqueFd()};
    launch::JobNews job(side);
    FullConsole full;
    Console console(full.stream(), full.stream());
    const Privacy privacy;
    RunEvidence evidence(std::move(*folder), {.node = "n", .launcher = ::getpid(), .patience = {}}, privacy, job,
                         console);
    ASSERT_TRUE(evidence.profiler_files().in_memory());
    blackbox::MadeProfilerFile file;
    file.append(blackbox::MadeProfilerFile::collective(0, 1'000'000'200, 1'000'000'900));
    file.write(evidence.profiler_files().folder() + "/" + kName);

    full.fill();
    ends->first.send(launch::MessageKind::kAskedToEnd);
    bool saved = false;
    std::jthread reader([&] {
      saved = appears(evidence.folder().profiler_folder() + "/" + kName);
      full.read_on();
    });
    evidence.explain_hang({}, 1, std::nullopt, false);
    reader.join();
    EXPECT_TRUE(saved);
    fs::remove(evidence.profiler_files().folder() + "/" + kName);
    evidence.discard();
    EXPECT_FALSE(fs::exists(evidence.profiler_files().folder()));
  }
  fs::remove_all(path);
}

/// Bytes that were printed.
long printed(std::FILE* stream) {
  std::fseek(stream, 0, SEEK_END);
  return std::ftell(stream);
}

/// A job without NCCL gets no reasons why its NCCL may have written nothing.
TEST(RunEvidence, ProfilerFilesAreMissedWhereNcclMayHaveWrittenSome) {
  for (const bool others : {false, true}) {
    const std::string path = "/dev/shm/run_evidence_test.none." + std::to_string(::getpid());
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::tmpfile(), std::fclose);
    ASSERT_NE(stream, nullptr);
    auto folder = launch::claim_run_folder(path);
    ASSERT_TRUE(folder) << folder.error().what;
    auto ends = launch::Channel::make();
    ASSERT_TRUE(ends);
    launch::WorkerSide side{.channel = std::move(ends->second), .stop = UniqueFd()};
    launch::JobNews job(side);
    Console console(stream.get(), stream.get());
    const Privacy privacy;
    RunEvidence evidence(std::move(*folder), {.node = "n", .launcher = ::getpid(), .patience = {}}, privacy, job,
                         console);
    const long before = printed(stream.get());
    evidence.collect();
    evidence.conclude({.only_other_libraries = others}, 0);
    EXPECT_EQ(printed(stream.get()) == before, others);
    fs::remove_all(path);
  }
}

TEST(RunEvidence, AHangThatIsExplainedAgainIsPrintedOnce) {
  const std::string path = "/dev/shm/run_evidence_test.again." + std::to_string(::getpid());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::tmpfile(), std::fclose);
  ASSERT_NE(stream, nullptr);
  {
    auto folder = launch::claim_run_folder(path);
    ASSERT_TRUE(folder) << folder.error().what;
    auto ends = launch::Channel::make();
    ASSERT_TRUE(ends);
    launch::WorkerSide side{.channel = std::move(ends->second), .stop = UniqueFd()};
    launch::JobNews job(side);
    Console console(stream.get(), stream.get());
    const Privacy privacy;
    RunEvidence evidence(std::move(*folder), {.node = "n", .launcher = ::getpid(), .patience = {}}, privacy, job,
                         console);
    const long before = printed(stream.get());
    evidence.explain_hang({}, 1, std::nullopt, false);
    EXPECT_EQ(printed(stream.get()), before) << "there is nothing to explain yet";
    blackbox::MadeProfilerFile file;
    file.append(blackbox::MadeProfilerFile::collective(0, 1'000'000'200, 1'000'000'900));
    file.write(evidence.profiler_files().folder() + "/" + kName);
    evidence.explain_hang({}, 2, std::nullopt, true);
    const long first = printed(stream.get());
    EXPECT_GT(first, before);
    evidence.explain_hang({}, 3, std::nullopt, true);
    EXPECT_EQ(printed(stream.get()), first) << "it says the same";
    evidence.explain_hang({}, 4, std::nullopt, false);
    EXPECT_GT(printed(stream.get()), first) << "another hang";
    fs::remove(evidence.profiler_files().folder() + "/" + kName);
    evidence.discard();
  }
  fs::remove_all(path);
}

}  // namespace
}  // namespace stalltrace::cli
