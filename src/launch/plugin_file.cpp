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
#include "base/text.h"
#include "plugin/embedded/profiler_plugin.h"

namespace stalltrace::launch {
namespace {

namespace fs = std::filesystem;

/// NCCL copies the path into an array of 255 (MAX_STR_LEN, src/plugin/plugin_open.cc) and loads what fits.
constexpr size_t kLongestPath = 254;
constexpr size_t kLargestPlugin = 16U << 20;
/// Words in every version of ours, and of nobody else's.
constexpr std::string_view kOurWords = "stalltrace: recording to";

std::vector<std::string> places_of(const std::string& chosen) {
  if (chosen.find('/') != std::string::npos) {
    return {chosen};
  }
  std::vector<std::string> places;
  const char* path = std::getenv("LD_LIBRARY_PATH");
  for (const std::string_view folder : split(path == nullptr ? "" : path, ':')) {
    for (const std::string& name : {chosen, "libnccl-profiler-" + chosen + ".so"}) {
      places.push_back(fmt::format("{}/{}", folder.empty() ? "." : folder, name));
    }
  }
  return places;
}

/// As the job's dynamic linker would map it.
Status check_loadable(const std::string& path) {
  if (path.size() > kLongestPath) {
    return fail(fmt::format("{} is too long: NCCL cuts a path after {} characters", path, kLongestPath));
  }
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* mapped = file ? ::mmap(nullptr, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0) : MAP_FAILED;
  if (mapped == MAP_FAILED) {
    return fail_errno("no code can be loaded from " + path, errno);
  }
  ::munmap(mapped, page);
  return {};
}

Result<std::string> place_in(const std::string& folder) {
  ST_ASSIGN(std::string path, write_profiler_plugin(folder));
  if (Status loadable = check_loadable(path); !loadable) {
    ::unlink(path.c_str());
    return std::unexpected(std::move(loadable.error()));
  }
  return path;
}

}  // namespace

bool is_our_plugin(const std::string& chosen) {
  for (const std::string& place : places_of(chosen)) {
    std::error_code error;
    if (fs::is_regular_file(place, error)) {  // links are followed, as the dynamic linker does
      const Result<std::string> content = read_file(place, kLargestPlugin);
      return content && content->find(kOurWords) != std::string::npos;
    }
  }
  const std::string name = fs::path(chosen).filename().string();
  return name == kProfilerPluginFile || fmt::format("libnccl-profiler-{}.so", name) == kProfilerPluginFile;
}

Result<PluginFile> PluginFile::place(const std::string& folder) {
  Result<std::string> path = place_in(folder);
  if (path) {
    return PluginFile(std::move(*path), "");
  }
  Error first = std::move(path.error());
  std::error_code error;
  for (const std::string& parent : {fs::temp_directory_path(error).string(), std::string("/tmp"),
                                    std::string("/var/tmp"), std::string("/dev/shm")}) {
    std::string own = parent + "/stalltrace-plugin-XXXXXX";
    if (::mkdtemp(own.data()) == nullptr) {
      continue;
    }
    ::chmod(own.c_str(), 0755);  // the job may run as somebody else
    if (path = place_in(own); path) {
      return PluginFile(std::move(*path), std::move(own));
    }
    ::rmdir(own.c_str());
  }
  return std::unexpected(std::move(first));
}

PluginFile::~PluginFile() {
  if (!temporary_.empty()) {
    ::unlink(path_.c_str());
    ::rmdir(temporary_.c_str());
  }
}

}  // namespace stalltrace::launch
