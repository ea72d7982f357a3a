// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/leftovers.h"

#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "lab/cluster/lock.h"

namespace stalltrace::lab {
namespace {

std::string note_path() { return std::string(kStateFolder) + "/leftovers"; }

}  // namespace

Result<LeftoverNote> LeftoverNote::make(std::span<const VirtualNode> nodes) {
  std::string text;
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

std::vector<std::string> remove_leftover_folders() {
  namespace fs = std::filesystem;
  std::vector<std::string> removed;
  const std::string text = read_file(note_path()).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const fs::path folder(line);
    std::error_code ignored;
    // "DIR/node3" only: a damaged note must not cost anybody another folder
    if (folder.is_absolute() && folder.filename().string().starts_with("node") && fs::exists(folder / "bin", ignored)) {
      fs::remove_all(folder, ignored);
      removed.push_back(folder.string());
    }
  }
  ::unlink(note_path().c_str());
  return removed;
}

}  // namespace stalltrace::lab
