// SPDX-License-Identifier: Apache-2.0
#include "stacks/native/file_functions.h"

#include <vector>

#include "base/clock.h"
#include "base/untrusted/untrusted_file.h"

namespace stalltrace::stacks {

void FileFunctions::want(pid_t pid, const MappedFile& file, uint64_t offset) {
  File& known = files_[key_of(file)];
  known.pid = pid;
  known.file = file;
  known.fresh |= known.functions.try_emplace(offset).second;
}

void FileFunctions::look_up(int64_t most_ns) {
  const int64_t until_ns = monotonic_now_ns() + most_ns;
  for (auto& [key, file] : files_) {
    const int64_t left_ns = until_ns - monotonic_now_ns();
    if (!file.fresh || left_ns <= 0) {
      continue;
    }
    const auto opened = UntrustedFile::open_mapped(procfs_, mounts_, file.pid, file.file);
    if (!opened) {
      continue;
    }
    file.fresh = false;
    std::vector<uint64_t> offsets;
    for (const auto& [offset, name] : file.functions) {
      offsets.push_back(offset);
    }
    const auto locations = reader_.functions_at(*opened, offsets, left_ns / 2);
    for (size_t i = 0; locations && i < offsets.size(); ++i) {
      file.functions[offsets[i]] = (*locations)[i] ? (*locations)[i]->function : "";
    }
  }
}

std::string FileFunctions::at(const MappedFile& file, uint64_t offset) const {
  const auto known = files_.find(key_of(file));
  if (known == files_.end()) {
    return {};
  }
  const auto function = known->second.functions.find(offset);
  return function == known->second.functions.end() ? std::string() : function->second;
}

}  // namespace stalltrace::stacks
