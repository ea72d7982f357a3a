// SPDX-License-Identifier: Apache-2.0
#include "launch/plugin_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/handle.h"
#include "base/rights/secure_mode.h"
#include "base/text.h"
#include "plugin/embedded/profiler_plugin.h"

namespace stalltrace::launch {
namespace {

namespace fs = std::filesystem;

/// NCCL copies the path into an array of 255 bytes (MAX_STR_LEN, src/plugin/plugin_open.cc) and loads the truncated
/// path.
constexpr size_t kLongestPath = 254;
constexpr size_t kLargestPlugin = 16U << 20;
constexpr std::string_view kTemporary = "stalltrace-plugin-";
/// Other users can't list it, and therefore can't hold its lock.
constexpr mode_t kUsedByAll = 0711;
/// A text that every version of our plugin contains and no other plugin does.
constexpr std::string_view kOurWords = "stalltrace: recording to";

std::vector<std::string> candidates_of(const std::string& chosen) {
  if (chosen.find('/') != std::string::npos) {
    return {chosen};
  }
  std::vector<std::string> paths;
  const char* path = trusted_variable("LD_LIBRARY_PATH");
  for (const std::string_view folder : split(path == nullptr ? "" : path, ':')) {
    for (const std::string& name : {chosen, "libnccl-profiler-" + chosen + ".so"}) {
      paths.push_back(fmt::format("{}/{}", folder.empty() ? "." : folder, name));
    }
  }
  return paths;
}

/// Checks that the job's dynamic linker would find and map exactly these bytes, which no other user can change.
Status check_loadable(const std::string& path) {
  if (path.size() > kLongestPath) {
    return fail(fmt::format("{} is too long: NCCL cuts a path after {} characters", path, kLongestPath));
  }
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) {
    return fail_errno("open " + path, errno);
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(path + ": another user can change it");
  }
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* mapped = ::mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) {
    return fail_errno("no code can be loaded from " + path, errno);
  }
  ::munmap(mapped, page);
  const Result<std::string> content = read_file(path, kLargestPlugin);
  return content && *content == profiler_plugin() ? Status()
                                                  : Status(fail(path + ": it was written, and reads otherwise"));
}

Result<std::string> copy_into(const OwnFolder& folder) {
  ST_ASSIGN(std::string path, write_profiler_plugin(folder.path()));
  if (Status loadable = check_loadable(path); !loadable) {
    folder.remove(std::string(kProfilerPluginFile));
    return std::unexpected(std::move(loadable.error()));
  }
  return path;
}

std::vector<std::string> temporary_folders() {
  std::vector<std::string> paths = {"/tmp", "/var/tmp", "/dev/shm"};
  if (const char* variable = trusted_variable("TMPDIR"); variable != nullptr && *variable == '/') {
    paths.insert(paths.begin(), variable);
  }
  return paths;
}

}  // namespace

bool is_our_plugin(const std::string& chosen) {
  for (const std::string& path : candidates_of(chosen)) {
    std::error_code error;
    // Links are followed, like in the dynamic linker. What is too large is a program of that name, which the linker
    // passes over as well.
    if (fs::is_regular_file(path, error) && fs::file_size(path, error) <= kLargestPlugin) {
      const Result<std::string> content = read_file(path, kLargestPlugin);
      return content && content->find(kOurWords) != std::string::npos;
    }
  }
  const std::string name = fs::path(chosen).filename().string();
  return name == kProfilerPluginFile || fmt::format("libnccl-profiler-{}.so", name) == kProfilerPluginFile;
}

Result<PluginFile> PluginFile::install(const OwnFolder& folder) {
  const bool others_job = ::geteuid() == 0;
  Error first;
  if (!others_job) {
    Result<std::string> path = copy_into(folder);
    if (path) {
      return PluginFile(std::move(*path), OwnFolder());
    }
    first = std::move(path.error());
  }
  for (const std::string& parent : temporary_folders()) {
    for_each_left_behind(parent, kTemporary, [](const OwnFolder& old) { remove_with_contents(old); });
    auto own = OwnFolder::make_temporary(std::string(kTemporary), kUsedByAll, parent);
    if (!own) {
      continue;
    }
    if (Result<std::string> path = copy_into(*own)) {
      return PluginFile(std::move(*path), std::move(*own));
    }
    own->remove_itself();
  }
  if (others_job) {
    Result<std::string> path = copy_into(folder);
    return path ? Result<PluginFile>(PluginFile(std::move(*path), OwnFolder()))
                : std::unexpected(std::move(path.error()));
  }
  return std::unexpected(std::move(first));
}

PluginFile::~PluginFile() {
  if (temporary_) {
    remove_with_contents(temporary_);
  }
}

}  // namespace stalltrace::launch
