// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/host/cgroup.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace::lab {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kRoot = "/sys/fs/cgroup";
constexpr std::string_view kNamePrefix = "stalltrace-lab-";
constexpr int kRemovalTries = 10;
constexpr auto kRemovalPause = std::chrono::milliseconds(100);

struct Parent {
  std::string home;    // the process's current group
  std::string folder;  // the new group's path
  bool version1 = false;
};

bool lists(std::string_view controllers, std::string_view controller, char separator) {
  const auto all = split(trim(controllers), separator);
  return std::find(all.begin(), all.end(), controller) != all.end();
}

/// Version 1 has one hierarchy per controller. In version 2 only leaves hold processes, so a new group is a sibling of
/// the old one.
std::optional<Parent> parent_of(std::string_view controller, int pid) {
  std::error_code error;
  const std::string text = read_file(fmt::format("/proc/{}/cgroup", pid)).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) {
      continue;
    }
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1) == "/" ? "" : line.substr(second + 1));
    if (lists(controllers, controller, ',')) {
      const std::string joined = fmt::format("{}/{}", kRoot, controllers);
      const std::string home = (fs::exists(joined, error) ? joined : fmt::format("{}/{}", kRoot, controller)) + path;
      return Parent{home, home, true};
    }
    if (controllers.empty() && fs::exists(fmt::format("{}/cgroup.controllers", kRoot), error)) {
      const std::string home = std::string(kRoot) + path;
      const std::string folder = path.empty() ? home : home.substr(0, home.rfind('/'));
      if (lists(read_file(folder + "/cgroup.subtree_control").value_or(""), controller, ' ')) {
        return Parent{home, folder, false};
      }
    }
  }
  return std::nullopt;
}

/// Writes a cgroup's file in place, since it can't be replaced.
Status put(const std::string& path, const std::string& value, std::vector<std::string>& commands) {
  std::ofstream file(path);
  if (!(file << value << std::flush)) {
    return fail_errno(fmt::format("write '{}' to {}", value, path), errno);
  }
  commands.push_back(fmt::format("echo {} > {}", value, path));
  return {};
}

Status fill(const Parent& parent, const std::string& folder, const CgroupLimit& limit, const std::vector<int>& pids,
            std::vector<std::string>& commands) {
  for (const auto& [file, value] : parent.version1 ? limit.version1 : limit.version2) {
    ST_TRY(put(fmt::format("{}/{}", folder, file), value, commands));
  }
  for (const int pid : pids) {
    ST_TRY(put(folder + "/cgroup.procs", std::to_string(pid), commands));
  }
  return {};
}

}  // namespace

Status limit_processes(std::string_view controller, int number, const CgroupLimit& limit, const std::vector<int>& pids,
                       std::vector<std::string>& commands, std::vector<UndoAction>& undo) {
  const std::optional<Parent> parent = pids.empty() ? std::nullopt : parent_of(controller, pids.front());
  if (!parent) {
    return fail(fmt::format("no cgroup with the {} controller can be made here", controller),
                "mount the cgroup file system, and enable the controller in cgroup.subtree_control",
                ErrorKind::kUnsupported);
  }
  const std::string folder = fmt::format("{}/{}{}", parent->folder, kNamePrefix, number);
  if (::mkdir(folder.c_str(), 0755) != 0) {
    return fail_errno("create " + folder, errno);
  }
  commands.push_back("mkdir " + folder);
  // A killed process leaves its group a moment later.
  const UndoAction remove = {
      UndoKind::kCommand,
      {"sh", "-c",
       "for try in 1 2 3 4 5 6 7 8 9 10; do for pid in $(cat \"$0/cgroup.procs\"); do echo $pid > \"$1/cgroup.procs\"; "
       "done 2>/dev/null; rmdir \"$0\" 2>/dev/null && exit 0; sleep 0.1; done; rmdir \"$0\"",
       folder, parent->home}};
  if (Status filled = fill(*parent, folder, limit, pids, commands); !filled) {
    (void)undo_all(std::span(&remove, 1));
    return filled;
  }
  undo.push_back(remove);
  return {};
}

std::vector<std::string> remove_cgroups() {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(kRoot, fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().filename().string().starts_with(kNamePrefix) && entry->is_directory(ignored)) {
      found.push_back(entry->path().string());
      entry.disable_recursion_pending();
    }
  }
  std::vector<std::string> removed;
  for (std::string& folder : found) {
    for (int attempt = 0; attempt < kRemovalTries; ++attempt) {
      if (::rmdir(folder.c_str()) == 0) {
        removed.push_back(std::move(folder));
        break;
      }
      std::this_thread::sleep_for(kRemovalPause);
    }
  }
  return removed;
}

}  // namespace stalltrace::lab
