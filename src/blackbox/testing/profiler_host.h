// SPDX-License-Identifier: Apache-2.0
// A simulated host for tests of profiler files: processes in a fake /proc, each with its own root, files where the
// plugin would put them, and writers that hold their locks as a living process does.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/process/procfs.h"
#include "base/text.h"
#include "blackbox/testing/made_profiler_file.h"

namespace stalltrace::blackbox {

/// A process that holds a file's lock until the object's end, which kills it.
class ProfilerFileWriter {
 public:
  explicit ProfilerFileWriter(const std::string& path) {
    int ready[2];
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    child_ = ::fork();
    if (child_ == 0) {
      const int fd = ::open(path.c_str(), O_RDWR);
      struct flock lock {};
      lock.l_type = F_WRLCK;
      lock.l_len = 1;
      const char held = ::fcntl(fd, F_SETLK, &lock) == 0 ? '1' : '0';
      (void)!::write(ready[1], &held, 1);
      ::alarm(60);  // ends it even if the test dies
      for (;;) {
        ::pause();
      }
    }
    ::close(ready[1]);
    char held = '0';
    EXPECT_EQ(::read(ready[0], &held, 1), 1);
    EXPECT_EQ(held, '1') << path;
    ::close(ready[0]);
  }
  ~ProfilerFileWriter() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
  }
  ProfilerFileWriter(const ProfilerFileWriter&) = delete;
  ProfilerFileWriter& operator=(const ProfilerFileWriter&) = delete;

 private:
  pid_t child_ = -1;
};

class ProfilerHost : public testing::Test {
 protected:
  static constexpr pid_t kPid = 5000;
  static constexpr uint64_t kStart =
      987'654'321;  // start time of the simulated processes, so that no real file is taken for theirs

  ProfilerHost() {
    char name[] = "/dev/shm/stalltrace-host-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~ProfilerHost() override { std::filesystem::remove_all(root_); }

  /// `inner`: its number in its own pid namespace.
  void add_process(pid_t pid, pid_t inner = 0, const std::string& folder = "/profiler") {
    put(pid, "stat", std::to_string(pid) + " (rank) S" + repeat(" 0", 18) + " " + std::to_string(kStart) + " 0 0\n");
    put(pid, "status",
        "Name:\trank\nNSpid:\t" + std::to_string(pid) + (inner ? "\t" + std::to_string(inner) : "") + "\n");
    put_pid_namespace(pid, inner != 0);
    put(pid, "environ", "STALLTRACE_DIR=" + folder + std::string(1, '\0'));
    std::filesystem::create_directories(folder_of(pid, folder));
  }
  [[nodiscard]] std::string folder_of(pid_t pid, const std::string& folder = "/profiler") const {
    return root_ + "/" + std::to_string(pid) + "/root" + folder;
  }
  /// Path of the process's file; `number` counts the names already taken.
  [[nodiscard]] std::string path_of(pid_t pid, pid_t inner = 0, int number = 0) const {
    return folder_of(pid) + "/" + name_of(inner ? inner : pid, number);
  }
  static std::string name_of(pid_t inner, int number = 0) {
    return "stalltrace-" + std::to_string(inner) + "-" + std::to_string(kStart) +
           (number ? "-" + std::to_string(number) : "") + ".profiler";
  }
  /// The file of the plugin in a process with this number.
  static MadeProfilerFile file_of(pid_t inner) {
    MadeProfilerFile file;
    file.header.pid = static_cast<uint32_t>(inner);
    file.header.process_start_ticks = kStart;
    file.header.ticks_per_second = 100;
    file.header.network_namespace = 77;
    struct stat info {};
    file.header.pid_namespace = ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
    const auto now_ns = static_cast<uint64_t>(monotonic_now_ns());
    file.header.created_ns = now_ns - 1'000'000'000;
    file.header.anchored_ns = now_ns;
    file.header.anchors[0] = {now_ns, static_cast<uint64_t>(utc_now_ns())};
    const std::string boot_id(trim(read_file("/proc/sys/kernel/random/boot_id", 64).value_or("")));
    std::strncpy(file.header.boot_id, boot_id.c_str(), sizeof file.header.boot_id - 1);
    return file;
  }
  /// The inode number of the process's pid namespace.
  [[nodiscard]] uint64_t pid_namespace_of(pid_t pid) const { return procfs().pid_namespace(pid); }
  [[nodiscard]] Procfs procfs() const { return Procfs(root_); }

  std::string root_;

 private:
  /// This host's namespace, or one of its own.
  void put_pid_namespace(pid_t pid, bool own) const {
    const std::string path = root_ + "/" + std::to_string(pid) + "/ns/pid";
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::remove(path);
    if (own) {
      const std::ofstream file(path);
    } else {
      std::filesystem::create_symlink("/proc/self/ns/pid", path);
    }
  }
  void put(pid_t pid, const std::string& name, const std::string& content) const {
    const std::string folder = root_ + "/" + std::to_string(pid);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + name, std::ios::binary) << content;
  }
  static std::string repeat(const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) {
      all += text;
    }
    return all;
  }
};

}  // namespace stalltrace::blackbox
