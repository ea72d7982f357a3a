// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/injection/leftovers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "lab/cluster/agent_servers.h"
#include "lab/cluster/host/cgroup.h"
#include "lab/cluster/host/lock.h"
#include "lab/cluster/host/network.h"
#include "lab/cluster/state.h"

namespace stalltrace::lab {
namespace {

namespace fs = std::filesystem;

std::string note_path() { return std::string(kStateFolder) + "/leftovers"; }

void remove_noted_folders(std::vector<std::string>& removed) {
  const std::string text = read_file(note_path()).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const fs::path folder(line);
    std::error_code ignored;
    const bool of_server = std::ranges::find(kServerFiles, folder.filename().string()) != kServerFiles.end();
    if (folder.is_absolute() && of_server && fs::is_regular_file(fs::symlink_status(folder, ignored))) {
      fs::remove(folder, ignored);
      removed.push_back(folder.string());
      continue;
    }
    // only "DIR/node3": a damaged note must not remove any other folder
    if (folder.is_absolute() && folder.filename().string().starts_with("node") && fs::exists(folder / "bin", ignored)) {
      fs::remove_all(folder, ignored);
      removed.push_back(folder.string());
    }
  }
  ::unlink(note_path().c_str());
}

void empty_state_folder(std::vector<std::string>& removed) {
  std::error_code error;
  for (fs::directory_iterator entry(kStateFolder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename() != "lock") {
      std::error_code ignored;
      fs::remove_all(entry->path(), ignored);
      removed.push_back(entry->path().string());
    }
  }
}

}  // namespace

Result<LeftoverNote> LeftoverNote::make(std::span<const VirtualNode> nodes, const std::string& out_dir, bool serves) {
  std::string text;
  if (serves) {
    for (const std::string_view name : kServerFiles) {
      text += fmt::format("{}/{}\n", out_dir, name);
    }
  }
  for (const VirtualNode& node : nodes) {
    text += node.folder + "\n";
  }
  ST_TRY(write_file(note_path(), text));
  return LeftoverNote();
}

LeftoverNote::~LeftoverNote() {
  if (owned_) {
    ::unlink(note_path().c_str());
  }
}

Result<std::vector<std::string>> remove_everything() {
  ST_ASSIGN(std::vector<std::string> removed, remove_namespaces());
  for (std::string& folder : remove_cgroups()) {
    removed.push_back(std::move(folder));
  }
  remove_noted_folders(removed);
  empty_state_folder(removed);
  return removed;
}

Result<std::vector<std::string>> clear_killed_run() {
  const auto standing = load_state();
  if (standing || standing.error().kind != ErrorKind::kNotFound) {
    return std::vector<std::string>{};
  }
  return remove_everything();
}

}  // namespace stalltrace::lab
