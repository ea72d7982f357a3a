// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reading of /proc: names, paths, mount points, command lines and environments there are any user's, and so
// are numbers in namespaces of his own. The input is the content of each file of a process.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/process/procfs.h"
#include "base/rights/uid_map.h"
#include "base/text.h"
#include "base/untrusted/mounts.h"
#include "capture/host/host_files.h"
#include "stacks/blocked/descriptors.h"
#include "stacks/blocked/system_calls.h"
#include "tests/fuzz/rows.h"

using namespace stalltrace;
using fuzz::require;

namespace {

constexpr pid_t kPid = 42;

/// A /proc with one process of one thread; all its files are one.
class Host {
 public:
  Host() {
    char name[] = "/dev/shm/stalltrace-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr);
    root_ = name;
    const std::string process = root_ + "/42";
    const std::string thread = process + "/task/42";
    std::filesystem::create_directories(thread);
    content_ = process + "/maps";
    std::ofstream(content_) << "";
    for (const char* file : {"status", "mountinfo", "stat", "environ", "cmdline", "comm"}) {
      std::filesystem::create_hard_link(content_, process + "/" + file);
    }
    for (const char* file : {"syscall", "stat", "status", "comm"}) {
      std::filesystem::create_hard_link(content_, thread + "/" + file);
    }
  }
  ~Host() { std::filesystem::remove_all(root_); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] const std::string& root() const { return root_; }
  void put(std::string_view text) const { std::ofstream(content_, std::ios::binary | std::ios::trunc) << text; }

 private:
  std::string root_;
  std::string content_;
};

void read_process(const Procfs& procfs) {
  if (const auto mappings = procfs.executable_mappings(kPid)) {
    for (const MappedFile& file : *mappings) {
      require(file.path.starts_with('/') && file.inode != 0);
      (void)find_moved(*mappings, file);
    }
  }
  (void)procfs.environment(kPid);
  require(procfs.command_line(kPid).size() <= 4096);
  (void)procfs.thread_file(kPid, kPid, "syscall");
  (void)procfs.thread_state(kPid, kPid);
  (void)procfs.thread_name(kPid, kPid);
  (void)procfs.start_ticks(kPid);
  (void)procfs.parent(kPid);
  (void)procfs.is_fork(kPid);
  (void)procfs.user(kPid);
  (void)procfs.inner_pid(kPid);
  (void)procfs.inner_threads(kPid);
  Mounts mounts(procfs);
  (void)mounts.of_device(kPid, 8, 1);
  (void)mounts.of_mount(kPid, 29);
}

void read_text(std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    MountLine mount;
    if (parse_mount_line(line, mount)) {
      require(mount.point.size() <= line.size() && mount.type.size() <= line.size());
    }
    (void)stacks::parse_system_call(line);
    (void)stacks::parse_tcp_row(line);
  }
  for (const UidRange& range : parse_uid_map(text)) {
    require(range.inside >= 0 && range.outside >= 0 && range.count >= 0);
  }
  for (const capture::CgroupPath& group : capture::parse_cgroups(text)) {
    require(group.path.size() <= text.size());
  }
  (void)capture::parse_softnet(text);
  (void)capture::parse_net_dev(text);
  (void)capture::parse_pressure(text, "some");
  (void)capture::parse_keyed(text, "usage_usec");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Host host;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  host.put(text);
  read_process(Procfs(host.root()));
  read_text(text);
  return 0;
}
