// SPDX-License-Identifier: Apache-2.0
#include "launch/run_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <string_view>

#include "plugin/embedded/profiler_plugin.h"

namespace stalltrace::launch {
namespace {

namespace fs = std::filesystem;

constexpr int kNamesTried = 10'000;

/// A folder that is there is fine.
Result<bool> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0) {
    return true;
  }
  const int error_number = errno;
  if (std::error_code ignored; error_number == EEXIST && fs::is_directory(path, ignored)) {
    return false;
  }
  return fail_errno("create " + path, error_number);
}

}  // namespace

std::string RunFolder::log_pattern() const {
  std::string pattern;
  for (const char c : path) {
    pattern += c == '%' ? "%%" : std::string(1, c);
  }
  return pattern + "/nccl.%h.%p.log";
}

bool RunFolder::has_logs() const {
  std::error_code error;
  const fs::directory_iterator files(path, error);
  return std::ranges::any_of(files, [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return name.starts_with("nccl.") && name.ends_with(".log");
  });
}

void RunFolder::remove_if_empty() const {
  std::error_code error;
  const fs::path plugin = fs::path(path) / kProfilerPluginFile;
  const fs::directory_iterator files(path, error);
  const bool only_ours = !error && std::ranges::all_of(files, [&](const fs::directory_entry& entry) {
    return entry.path() == plugin || entry.path() == profiler_folder();
  });
  if (!only_ours || !fs::is_empty(profiler_folder(), error) || error) {
    return;
  }
  ::unlink(plugin.c_str());
  ::rmdir(profiler_folder().c_str());
  if (created) {
    ::rmdir(path.c_str());
  }
}

void RunFolder::discard() const {
  for (const char* end : {"", "-wal", "-shm", "-journal"}) {
    ::unlink((recording() + end).c_str());
  }
  remove_if_empty();
}

std::string default_run_folder(const std::string& node) {
  std::string name = "stalltrace-run-" + node;
  std::ranges::replace_if(
      name, [](unsigned char c) { return c == '/' || std::isspace(c) != 0; }, '_');
  return name;
}

Result<RunFolder> claim_run_folder(const std::string& wanted) {
  std::error_code error;
  const std::string first = fs::absolute(wanted, error).lexically_normal().string();
  std::string base = first;
  while (base.size() > 1 && base.ends_with('/')) {
    base.pop_back();
  }
  if (const std::string parent = fs::path(base).parent_path().string(); !fs::exists(parent, error)) {
    fs::create_directories(parent, error);  // what fails shows below
  }
  for (int number = 1; number <= kNamesTried; ++number) {
    RunFolder folder{.path = number == 1 ? base : fmt::format("{}-{}", base, number)};
    ST_ASSIGN(folder.created, make_folder(folder.path));
    if (fs::exists(folder.recording(), error)) {
      continue;
    }
    if (::mkdir(folder.profiler_folder().c_str(), 0777) == 0) {  // of several launchers one succeeds
      return folder;
    }
    if (errno != EEXIST) {
      return fail_errno("create " + folder.profiler_folder(), errno);
    }
  }
  return fail("every name is taken, up to " + fmt::format("{}-{}", base, kNamesTried));
}

}  // namespace stalltrace::launch
