// SPDX-License-Identifier: Apache-2.0
#include "launch/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "plugin/embedded/profiler_plugin.h"

namespace stalltrace::launch {
namespace {

constexpr int kNamesTried = 10'000;

constexpr const char* kProfilerFolder = "profiler";
constexpr const char* kRecording = "trace.db";

}  // namespace

std::string RunFolder::log_pattern() const {
  std::string pattern;
  for (const char c : path) {
    pattern += c == '%' ? "%%" : std::string(1, c);
  }
  return pattern + "/nccl.%h.%p.log";
}

bool RunFolder::has_logs() const {
  bool found = false;
  for_each_name(own.descriptor(), [&](const std::string& name) {
    found = found || (name.starts_with("nccl.") && name.ends_with(".log"));
  });
  return found;
}

void RunFolder::remove_if_empty() const {
  bool only_ours = true;
  for_each_name(own.descriptor(), [&](const std::string& name) {
    only_ours = only_ours && (name == kProfilerPluginFile || name == kProfilerFolder);
  });
  if (!only_ours || ::unlinkat(own.descriptor(), kProfilerFolder, AT_REMOVEDIR) != 0) {
    return;
  }
  own.remove(std::string(kProfilerPluginFile));
  if (own.created()) {
    own.remove_itself();
  }
}

void RunFolder::discard() const {
  for (const char* end : {"", "-wal", "-shm", "-journal"}) {
    own.remove(std::string(kRecording) + end);
  }
  remove_if_empty();
}

std::string default_run_folder(const std::string& node) {
  std::string name = "stalltrace-run-" + node;
  std::ranges::replace_if(
      name, [](unsigned char c) { return c == '/' || std::isspace(c) != 0; }, '_');
  return name;
}

Result<RunFolder> claim_run_folder(const std::string& wanted, Readers readers) {
  std::string base = wanted;
  while (base.size() > 1 && base.ends_with('/')) {
    base.pop_back();
  }
  for (int number = 1; number <= kNamesTried; ++number) {
    RunFolder folder;
    ST_ASSIGN(folder.own, OwnFolder::claim(number == 1 ? base : fmt::format("{}-{}", base, number), readers));
    folder.path = folder.own.path();
    if (folder.own.has(kRecording)) {
      continue;
    }
    ST_ASSIGN(const bool made, folder.own.make_inside(kProfilerFolder, readers));  // only one launcher succeeds
    if (made) {
      return folder;
    }
  }
  return fail("every name is taken, up to " + fmt::format("{}-{}", base, kNamesTried));
}

Result<RunFolder> temporary_run_folder(const std::string& wanted, Readers readers) {
  RunFolder folder;
  const std::string name = std::filesystem::path(wanted).filename().string();
  ST_ASSIGN(folder.own,
            OwnFolder::make_temporary((name.empty() ? "stalltrace-run" : name) + "-", folder_mode(readers)));
  folder.path = folder.own.path();
  ST_ASSIGN(const bool made, folder.own.make_inside(kProfilerFolder, readers));
  return made ? Result<RunFolder>(std::move(folder)) : fail(folder.path + " has something in it already");
}

}  // namespace stalltrace::launch
