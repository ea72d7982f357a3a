// SPDX-License-Identifier: Apache-2.0
#include "stacks/nccl/written_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/file.h"
#include "base/handle.h"
#include "base/text.h"

namespace stalltrace::stacks {
namespace {

/// Bit of an entry of /proc/PID/pagemap: the page is in RAM (Documentation/admin-guide/mm/pagemap.rst).
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr size_t kEntriesAtOnce = 8192;
constexpr uint64_t kMostMapped = uint64_t{256} << 30;  // bytes of address space: 512 MiB of pagemap

bool holds_allocations(const Mapping& mapping) {
  const std::string_view name = mapping.file.path;
  return mapping.writable && !mapping.shared && mapping.file.inode == 0 &&
         (name.empty() || name == "[heap]" || name.starts_with("[anon:"));
}

/// Adds the pages of the mapping that are in RAM. False: they could not be read.
bool add_present(int pagemap, const MemoryRange& mapping, uint64_t page_bytes, std::vector<MemoryRange>& out) {
  std::array<uint64_t, kEntriesAtOnce> entries{};
  for (uint64_t at = mapping.begin; at < mapping.end;) {
    const size_t wanted = std::min<uint64_t>(entries.size(), (mapping.end - at) / page_bytes);
    const ssize_t got = ::pread(pagemap, entries.data(), wanted * sizeof(uint64_t),
                                static_cast<off_t>(at / page_bytes * sizeof(uint64_t)));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < static_cast<ssize_t>(sizeof(uint64_t))) {
      return false;
    }
    for (size_t i = 0; i < static_cast<size_t>(got) / sizeof(uint64_t); ++i, at += page_bytes) {
      if ((entries[i] & kPresent) == 0) {
        continue;
      }
      if (!out.empty() && out.back().end == at) {
        out.back().end += page_bytes;
      } else {
        out.push_back({at, at + page_bytes});
      }
    }
  }
  return true;
}

}  // namespace

Result<WrittenMemory> written_memory(const Procfs& procfs, pid_t pid) {
  ST_ASSIGN(const std::string maps, read_file(procfs.path(pid, "maps")));
  const std::string path = procfs.path(pid, "pagemap");
  const UniqueFd pagemap(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!pagemap) {
    return fail_errno("open " + path, errno);
  }
  std::vector<MemoryRange> mappings;
  for (const std::string_view line : split(maps, '\n')) {
    if (const auto mapping = parse_mapping(line); mapping && holds_allocations(*mapping)) {
      mappings.push_back({mapping->file.start, mapping->file.end});
    }
  }
  std::ranges::stable_sort(mappings, {}, [](const MemoryRange& range) { return range.end - range.begin; });
  const auto page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  WrittenMemory memory;
  uint64_t mapped = 0;
  for (const MemoryRange& mapping : mappings) {
    mapped += mapping.end - mapping.begin;
    memory.whole = memory.whole && mapped <= kMostMapped;
    if (!memory.whole) {
      break;
    }
    if (!add_present(pagemap.get(), mapping, page_bytes, memory.ranges)) {
      memory.whole = false;
    }
  }
  return memory;
}

}  // namespace stalltrace::stacks
