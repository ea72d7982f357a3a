// SPDX-License-Identifier: Apache-2.0
#include "base/memory/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace {
namespace {

/// A file with one number; `otherwise` for "max", or where there is none.
uint64_t number_in(const std::string& path, uint64_t otherwise) {
  const Result<int64_t> number = parse_integer(trim(read_file(path, 64).value_or("")));
  return number && *number > 0 ? static_cast<uint64_t>(*number) : otherwise;
}

/// Of a cgroup and those above it.
uint64_t least_of(const std::string& hierarchy, std::string group, const char* file, uint64_t limit) {
  while (true) {
    limit = std::min(limit, number_in(hierarchy + group + "/" + file, limit));
    if (group.empty()) {
      return limit;
    }
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

uint64_t memory_limit(const std::string& root) {
  constexpr std::string_view kTotal = "MemTotal:";
  uint64_t limit = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::string memory = read_file(root + "/proc/meminfo").value_or("");
  for (const std::string_view line : split(memory, '\n')) {
    if (line.starts_with(kTotal)) {
      const std::string_view value = line.substr(kTotal.size());
      limit = static_cast<uint64_t>(parse_integer(trim(value.substr(0, value.rfind(' ')))).value_or(0)) << 10;
    }
  }
  const std::string groups = read_file(root + "/proc/self/cgroup").value_or("");
  for (const std::string_view line : split(groups, '\n')) {
    const auto fields = split(line, ':');  // number, controllers, path
    if (fields.size() != 3) {
      continue;
    }
    const std::string group = fields[2] == "/" ? "" : std::string(fields[2]);
    const auto controllers = split(fields[1], ',');
    if (fields[1].empty()) {
      limit = least_of(root + "/sys/fs/cgroup", group, "memory.max", limit);
    } else if (std::ranges::find(controllers, "memory") != controllers.end()) {
      limit = least_of(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", limit);
    }
  }
  return limit;
}

}  // namespace stalltrace
