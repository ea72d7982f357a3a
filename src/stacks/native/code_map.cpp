// SPDX-License-Identifier: Apache-2.0
#include "stacks/native/code_map.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace::stacks {
namespace {

bool same_file(const MappedFile& a, const MappedFile& b) {
  return a.device_major == b.device_major && a.device_minor == b.device_minor && a.inode == b.inode;
}

}  // namespace

Result<CodeMap> CodeMap::read(const Procfs& procfs, pid_t pid) {
  ST_ASSIGN(const std::string maps, read_file(procfs.path(pid, "maps")));
  return parse(maps);
}

CodeMap CodeMap::parse(std::string_view maps) {
  CodeMap map;
  MappedFile first;  // the newest mapping of a file's beginning: the loader maps a file's parts one after the other
  for (const std::string_view line : split(maps, '\n')) {
    auto mapping = parse_mapping(line);
    if (!mapping || mapping->file.end <= mapping->file.start) {
      continue;
    }
    MappedFile& file = mapping->file;
    if (file.inode != 0 && file.offset == 0) {
      first = file;
    }
    if (!mapping->executable) {
      continue;
    }
    CodeRegion region;
    if (file.path == "[vdso]") {
      region.elf = file.start;
    } else if (file.inode != 0 && first.inode != 0 && same_file(first, file)) {
      region.elf = first.start;
    }
    region.mapping = std::move(file);
    map.regions_.push_back(std::move(region));
  }
  std::ranges::stable_sort(map.regions_, {}, [](const CodeRegion& region) { return region.mapping.start; });
  return map;
}

const CodeRegion* CodeMap::at(uint64_t address) const {
  const auto after =
      std::ranges::upper_bound(regions_, address, {}, [](const CodeRegion& region) { return region.mapping.start; });
  if (after == regions_.begin() || address >= std::prev(after)->mapping.end) {
    return nullptr;
  }
  return &*std::prev(after);
}

}  // namespace stalltrace::stacks
