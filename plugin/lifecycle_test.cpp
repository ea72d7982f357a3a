// SPDX-License-Identifier: Apache-2.0
// Lifecycle: loading and unloading, forks, unusable folders, and files of dead processes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "plugin/box/field.h"
#include "plugin/box/old_files.h"
#include "plugin/testing/host.h"

namespace stalltrace::plugin::testing {
namespace {

class Lifecycle : public ::testing::Test {
 protected:
  BoxFolder folder_;
};

/// Runs in a child process and returns the exit code of `work`; 99 if it ended otherwise.
template <typename Work>
int in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    const int failures = work();
    _exit(failures);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

/// Checked from another process: the owner sees no lock of its own, and closing the file would release it.
bool is_locked(const std::string& path) {
  return in_child([&path] {
           const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
           struct flock lock {};
           lock.l_type = F_RDLCK;
           lock.l_len = 1;
           return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? 1 : 0;
         }) == 1;
}

bool is_mapped(const std::string& text) {
  std::ifstream maps("/proc/self/maps");
  const std::string all{std::istreambuf_iterator<char>(maps), {}};
  return all.find(text) != std::string::npos;
}

size_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

/// Waits briefly, since the kernel still lists a joined thread for a moment.
size_t threads_soon(size_t at_most) {
  for (int look = 0; look < 1000 && threads_of_this_process() > at_most; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return threads_of_this_process();
}

TEST_F(Lifecycle, OnlyTheOwnerReadsTheFile) {
  const Library library;
  const Job<V5> job(library);
  struct stat info {};
  ASSERT_EQ(stat(folder_.boxes().at(0).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(static_cast<uint64_t>(info.st_size), folder_.read().header.file_bytes);
  EXPECT_LE(info.st_size, 8 << 20);
  EXPECT_GE(info.st_blocks * 512, info.st_size) << "reserved, or a full file system would kill";
}

TEST_F(Lifecycle, InitAndFinalizeAgainAndAgain) {
  const Library library;
  for (uint64_t round = 0; round < 20; ++round) {
    Job<V5> job(library, round + 1);
    void* coll = job.coll(nullptr, {.sequence = round});
    job.stop(coll);
    job.stop(job.op(coll, true, 1));
  }
  const BoxView view = folder_.read();
  EXPECT_EQ(view.header.state, ST_BOX_CLOSED);
  EXPECT_EQ(view.header.open_communicators, 0U);
  EXPECT_EQ(view.header.communicators_made, 20U);
  EXPECT_EQ(view.of_type(ST_BOX_COLL).size(), 20U);
  struct stat info {};
  ASSERT_EQ(stat(folder_.boxes().at(0).c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, info.st_size / 2) << "what was never used is given back";
}

TEST_F(Lifecycle, EventsAfterTheEndAreIgnored) {
  const Library library;
  Job<V5> job(library);
  void* coll = job.coll(nullptr, {});
  const auto& table = job.table();
  void* context = job.context();
  job.finish();
  EXPECT_EQ(table.stop_event(coll), 0);
  void* handle = &handle;
  auto event = job.descriptor(nccl::kEventColl, nullptr);
  EXPECT_EQ(table.start_event(context, &handle, &event), 0);
  EXPECT_EQ(handle, nullptr);
  EXPECT_EQ(table.finalize(context), 0) << "once too often";
}

TEST_F(Lifecycle, UnloadedWithoutATrace) {
  size_t threads = 0;
  for (int round = 0; round < 40; ++round) {
    {
      const Library library;
      Job<V5> job(library);
      job.stop(job.coll(nullptr, {}));
      std::thread([&job] { job.stop(job.coll(nullptr, {})); }).join();
      EXPECT_TRUE(is_mapped("libnccl-profiler-stalltrace.so"));
      EXPECT_TRUE(is_mapped(folder_.path()));
    }
    ASSERT_FALSE(is_mapped(folder_.path()));
    threads = round == 0 ? threads_of_this_process() : threads;  // includes a sanitizer's own
    ASSERT_LE(threads_soon(threads), threads);
    for (const std::string& file : folder_.boxes()) {
      ASSERT_FALSE(is_locked(file));
      std::filesystem::remove(file);
    }
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their runtimes keep libraries loaded
  EXPECT_FALSE(is_mapped("libnccl-profiler-stalltrace.so"));
#endif
  EXPECT_EQ(in_child([] { return 0; }), 0) << "a fork after the unloading";
}

TEST_F(Lifecycle, LoadedAgainItGoesOnInTheSameFile) {
  for (uint64_t round = 0; round < 100; ++round) {
    const Library library;
    Job<V5> job(library, round + 1);
    void* coll = job.coll(nullptr, {.sequence = round});
    job.stop(coll);
    job.stop(job.op(coll, true, 1));
  }
  const BoxView view = folder_.read();
  const auto colls = view.of_type(ST_BOX_COLL);
  ASSERT_EQ(colls.size(), 100U) << "no id twice";
  for (const st_box_event& coll : colls) {
    EXPECT_EQ(coll.communicator, coll.u.coll.sequence + 1);
  }
  EXPECT_EQ(view.communicators.size(), 100U);
}

TEST_F(Lifecycle, AFileThatIsNotAsThisProcessLeftItStays) {
  {
    const Library library;
    const Job<V5> job(library);
  }
  const std::string first = folder_.boxes().at(0);
  const auto whole = std::filesystem::file_size(first);
  std::filesystem::resize_file(first, whole - 4096);
  {
    const Library library;
    const Job<V5> job(library);
    EXPECT_EQ(folder_.boxes().size(), 2U);
  }
  EXPECT_EQ(std::filesystem::file_size(first), whole - 4096);
  std::filesystem::permissions(folder_.boxes().at(0), std::filesystem::perms(0644));
  const Library library;
  const Job<V5> job(library);
  EXPECT_EQ(folder_.boxes().size(), 3U);
}

TEST_F(Lifecycle, AnExitWithCommunicatorsAliveHurtsNoProcess) {
  // std::exit runs the library's destructor while another thread goes on recording.
  const int result = in_child([] {
    static const Library library;
    static Job<V5> job(library);
    std::thread([] {
      while (true) {
        job.stop(job.op(nullptr, true, 1));
      }
    }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto& table = library.table<V5>();
    if (table.name == nullptr) {
      return 1;
    }
    quick_exit(0);
  });
  EXPECT_EQ(result, 0);
}

std::atomic<bool> is_inside_init = false;
std::chrono::milliseconds time_inside_init{};

void log_slowly(int /*level*/, unsigned long /*subsystem*/, const char* /*file*/, int /*line*/, const char* /*format*/,
                ...) {
  is_inside_init = true;
  std::this_thread::sleep_for(time_inside_init);
}

/// From the start to the end of a process that exits while a thread of it is inside init for `inside`.
std::chrono::milliseconds life_that_ends_during_init(std::chrono::milliseconds inside) {
  time_inside_init = inside;
  const auto start = std::chrono::steady_clock::now();
  const int result = in_child([]() -> int {
    alarm(30);
    static const Library& library = *new Library;  // the exit itself unloads it
    std::thread([] {
      void* context = nullptr;
      int mask = 0;
      library.table<V5>().init(&context, 1, &mask, "world", 1, 1, 0, log_slowly);
    }).detach();
    while (!is_inside_init) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    exit(0);
  });
  EXPECT_EQ(result, 0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
}

TEST_F(Lifecycle, AnExitWaitsForAThreadInsideInitButNotForever) {
  const auto short_wait = life_that_ends_during_init(std::chrono::milliseconds(200));
  EXPECT_GE(short_wait, std::chrono::milliseconds(200));
  const auto given_up = life_that_ends_during_init(std::chrono::hours(1));
  EXPECT_GE(given_up, std::chrono::seconds(2));
  EXPECT_LT(short_wait, given_up);
}

TEST_F(Lifecycle, AForksChildWritesNothingIntoItsParentsFile) {
  const Library library;
  Job<V5> job(library);
  void* coll = job.coll(nullptr, {.sequence = 1});
  const std::string parents = folder_.boxes().at(0);
  const int failures = in_child([&] {
    void* handle = job.op(coll, true, 1);
    job.stop(handle);
    job.stop(coll);
    Job<V5> own(library, 77);  // the child uses NCCL itself
    own.stop(own.op(own.coll(nullptr, {.sequence = 50}), true, 1));
    job.finish();  // the inherited communicator
    void* more = own.coll(nullptr, {.sequence = 51});
    const auto files = folder_.boxes();
    const bool open = files.size() == 2 && read_box(files[0] == parents ? files[1] : files[0]).open.size() == 2;
    return (handle != nullptr ? 1 : 0) + (more == nullptr ? 2 : 0) + (open ? 0 : 4) +
           (::testing::Test::HasFailure() ? 8 : 0);
  });
  EXPECT_EQ(failures, 0);
  EXPECT_TRUE(is_locked(parents)) << "the child's end does not end ours";
  BoxView view = read_box(parents);
  EXPECT_EQ(view.header.ring_head, 0U);
  EXPECT_EQ(view.open.size(), 1U);
  const auto files = folder_.boxes();
  const std::string childs = files.at(0) == parents ? files.at(1) : files.at(0);
  EXPECT_FALSE(is_locked(childs));
  const BoxView child = read_box(childs);
  EXPECT_NE(child.header.pid, static_cast<uint32_t>(getpid()));
  EXPECT_NE(child.header.process_tag, view.header.process_tag);
  EXPECT_EQ(child.of_type(ST_BOX_PROXY_OP).size(), 1U);
  EXPECT_EQ(child.header.state, ST_BOX_CLOSED);
}

int warnings = 0;
void count_warnings(int level, unsigned long, const char*, int, const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  warnings += level == nccl::kLogWarn ? 1 : 0;
}

/// Every function returns success, no event is requested, and the log has one line.
void expect_harmless() {
  const Library library;
  const auto& table = library.table<V5>();
  warnings = 0;
  void* context = nullptr;
  void* second = nullptr;
  int mask = -1;
  EXPECT_EQ(table.init(&context, 1, &mask, nullptr, 1, 2, 0, count_warnings), 0);
  EXPECT_EQ(mask, 0);
  EXPECT_EQ(table.init(&second, 2, &mask, "x", 1, 2, 0, count_warnings), 0);
  EXPECT_EQ(warnings, 1);
  V5::Descriptor event{};
  event.type = nccl::kEventColl;
  void* handle = &event;
  EXPECT_EQ(table.start_event(context, &handle, &event), 0);
  EXPECT_EQ(handle, nullptr);
  EXPECT_EQ(table.stop_event(handle), 0);
  EXPECT_EQ(table.finalize(context), 0);
  EXPECT_EQ(table.finalize(second), 0);
}

TEST_F(Lifecycle, AFolderThatIsNotThere) {
  setenv("STALLTRACE_DIR", "/nonexistent/folder", 1);
  expect_harmless();
  setenv("STALLTRACE_DIR", std::string(600, 'x').c_str(), 1);
  expect_harmless();
  setenv("STALLTRACE_DIR", "/proc", 1);
  expect_harmless();
}

TEST_F(Lifecycle, ALimitedFileSizeIsNoSignal) {
  EXPECT_EQ(in_child([] {
              const rlimit limit{64 << 10, 64 << 10};
              setrlimit(RLIMIT_FSIZE, &limit);
              expect_harmless();
              return ::testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
  EXPECT_TRUE(folder_.boxes().empty()) << "nothing half made stays";
}

TEST_F(Lifecycle, ASmallRingIsEnough) {
  setenv("STALLTRACE_RING_SIZE", "1m", 1);
  const Library library;
  Job<V5> job(library);
  EXPECT_NE(job.coll(nullptr, {}), nullptr);
  EXPECT_LE(folder_.read().header.file_bytes, 1U << 20);
}

TEST_F(Lifecycle, NoEventsNoFile) {
  setenv("STALLTRACE_EVENTS", "none", 1);
  const Library library;
  const Job<V5> job(library);
  EXPECT_EQ(job.mask(), 0);
  EXPECT_TRUE(folder_.boxes().empty());
}

TEST_F(Lifecycle, AnotherUsersFileInTheWayIsNotTouched) {
  {
    const Library library;
    const Job<V5> job(library);
  }
  const std::string name = folder_.boxes().at(0);
  std::filesystem::remove(name);
  const std::string victim = folder_.path() + "/victim";
  std::ofstream(victim) << "precious";
  std::filesystem::create_symlink(victim, name);
  const Library library;
  const Job<V5> job(library);
  EXPECT_EQ(std::filesystem::file_size(victim), 8U);
  EXPECT_EQ(folder_.boxes().size(), 2U);
}

TEST_F(Lifecycle, InMemoryFilesOfTheLongDeadGoWhateverRoomThereIs) {
  const auto put = [this](const char* name, uint64_t heartbeat_ns) {
    st_box_header header{};
    std::memcpy(header.magic, ST_BOX_MAGIC, sizeof(header.magic));
    header.version = ST_BOX_VERSION;
    header.created_ns = 1;
    header.heartbeat_ns = heartbeat_ns;
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&header), sizeof(header));
    return path;
  };
  const std::string old = put("stalltrace-1-1.profiler", 1);
  const std::string fresh = put("stalltrace-2-1.profiler", now_ns());
  remove_old_files(folder_.path().c_str(), 1 << 30, 60'000'000'000);
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(fresh));
}

TEST_F(Lifecycle, FilesOfTheDeadMakeRoomOldestFirst) {
  const auto put = [this](const char* name, int age_s) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << std::string(1 << 20, 'x');
    const timespec times[] = {{1'000'000 - age_s, 0}, {1'000'000 - age_s, 0}};
    utimensat(AT_FDCWD, path.c_str(), times, 0);
    return path;
  };
  const std::string oldest = put("stalltrace-1-1.profiler", 30);
  const std::string old = put("stalltrace-2-1.profiler", 20);
  const std::string newest = put("stalltrace-3-1.profiler", 10);
  const std::string another = put("another-users.profiler", 99);
  const std::string alive = put("stalltrace-4-1.profiler", 99);
  int ready[2];
  int done[2];
  ASSERT_EQ(pipe(ready) + pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(alive.c_str(), O_RDWR);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_len = 1;
    fcntl(fd, F_SETLK, &lock);
    char byte = 'x';
    _exit(write(ready[1], &byte, 1) == 1 && read(done[0], &byte, 1) == 1 ? 0 : 1);
  }
  char byte = 'x';
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  remove_old_files(folder_.path().c_str(), 3 << 20);
  EXPECT_TRUE(std::filesystem::exists(oldest)) << "all fit";
  remove_old_files(folder_.path().c_str(), 5 << 18);
  EXPECT_FALSE(std::filesystem::exists(oldest));
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(newest));
  EXPECT_TRUE(std::filesystem::exists(another));
  EXPECT_TRUE(std::filesystem::exists(alive));
  EXPECT_EQ(write(done[1], &byte, 1), 1);
  waitpid(child, nullptr, 0);
  for (const int fd : {ready[0], ready[1], done[0], done[1]}) {
    close(fd);
  }
}

}  // namespace
}  // namespace stalltrace::plugin::testing
