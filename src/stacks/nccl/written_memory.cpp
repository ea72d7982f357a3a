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

/// Adds pages that are in RAM, within the bounds.
class Present {
 public:
  Present(int pagemap, SearchBounds bounds, std::vector<MemoryRange>& out)
      : pagemap_(pagemap), bounds_(bounds), out_(out) {}

  /// Those of the mapping. False: not all of them, because they could not be read or a bound was met.
  bool add(const MemoryRange& mapping);
  [[nodiscard]] bool full() const {
    return bytes_ >= bounds_.most_bytes || monotonic_now_ns() - begun_ns_ > bounds_.most_ns;
  }

 private:
  void add_page(uint64_t at) {
    bytes_ += page_bytes_;
    if (!out_.empty() && out_.back().end == at) {
      out_.back().end += page_bytes_;
    } else {
      out_.push_back({at, at + page_bytes_});
    }
  }

  int pagemap_;
  SearchBounds bounds_;
  std::vector<MemoryRange>& out_;
  int64_t begun_ns_ = monotonic_now_ns();
  uint64_t bytes_ = 0;
  uint64_t page_bytes_ = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
};

bool Present::add(const MemoryRange& mapping) {
  std::array<uint64_t, kEntriesAtOnce> entries{};
  for (uint64_t at = mapping.begin; at < mapping.end;) {
    if (full()) {
      return false;
    }
    const size_t wanted = std::min<uint64_t>(entries.size(), (mapping.end - at) / page_bytes_);
    const ssize_t got = ::pread(pagemap_, entries.data(), wanted * sizeof(uint64_t),
                                static_cast<off_t>(at / page_bytes_ * sizeof(uint64_t)));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < static_cast<ssize_t>(sizeof(uint64_t))) {
      return false;
    }
    for (size_t i = 0; i < static_cast<size_t>(got) / sizeof(uint64_t); ++i, at += page_bytes_) {
      if ((entries[i] & kPresent) != 0) {
        add_page(at);
      }
    }
  }
  return true;
}

}  // namespace

Result<WrittenMemory> written_memory(const Procfs& procfs, pid_t pid, SearchBounds bounds) {
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
  WrittenMemory memory;
  Present present(pagemap.get(), bounds, memory.ranges);
  uint64_t mapped = 0;
  for (const MemoryRange& mapping : mappings) {
    mapped += mapping.end - mapping.begin;
    if (mapped > kMostMapped || present.full()) {
      memory.whole = false;
      break;
    }
    memory.whole = present.add(mapping) && memory.whole;
  }
  return memory;
}

}  // namespace stalltrace::stacks
