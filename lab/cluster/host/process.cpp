// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/host/process.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace::lab {
namespace {

struct Stat {
  char state = 0;
  uint64_t start_time = 0;
};

/// Fields of /proc/PID/stat: the name (field 2) is in parentheses and may contain anything, so count from the last ')'.
std::optional<Stat> read_stat(int pid) {
  constexpr size_t kStartTimeAfterName = 19;  // field 22; the state is field 3, first after the name
  const auto text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text) {
    return std::nullopt;
  }
  const size_t name_end = text->rfind(") ");
  if (name_end == std::string::npos) {
    return std::nullopt;
  }
  const auto fields = split(std::string_view(*text).substr(name_end + 2), ' ');
  if (fields.size() <= kStartTimeAfterName || fields[0].empty()) {
    return std::nullopt;
  }
  const auto start = parse_integer(fields[kStartTimeAfterName]);
  return Stat{fields[0][0], static_cast<uint64_t>(start.value_or(0))};
}

/// The numeric entries of a folder.
std::vector<int> numbers_in(const std::string& folder) {
  std::vector<int> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (const auto number = parse_integer(entry->path().filename().string())) {
      numbers.push_back(static_cast<int>(*number));
    }
  }
  return numbers;
}

}  // namespace

std::optional<uint64_t> process_start_time(int pid) {
  const auto stat = read_stat(pid);
  if (!stat || stat->state == 'Z' || stat->state == 'X') {
    return std::nullopt;
  }
  return stat->start_time;
}

std::optional<char> process_state(int pid) {
  const auto stat = read_stat(pid);
  return stat ? std::optional(stat->state) : std::nullopt;
}

std::vector<int> threads_of(int pid) { return numbers_in(fmt::format("/proc/{}/task", pid)); }

std::vector<int> processes_in(const std::string& netns_path) {
  struct stat wanted {};
  std::vector<int> found;
  if (::stat(netns_path.c_str(), &wanted) != 0) {
    return found;
  }
  for (const int pid : numbers_in("/proc")) {
    struct stat netns {};
    if (::stat(fmt::format("/proc/{}/ns/net", pid).c_str(), &netns) == 0 && netns.st_ino == wanted.st_ino &&
        netns.st_dev == wanted.st_dev) {
      found.push_back(pid);
    }
  }
  return found;
}

}  // namespace stalltrace::lab
