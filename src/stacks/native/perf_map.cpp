// SPDX-License-Identifier: Apache-2.0
#include "stacks/native/perf_map.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <limits>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "base/untrusted/untrusted_file.h"

namespace stalltrace::stacks {
namespace {

constexpr size_t kLongestName = 160;
constexpr size_t kMostAddresses = 1024;
constexpr size_t kLinesBetweenClocks = 1024;
constexpr size_t kBytesBetweenClocks = 1U << 20;

struct Line {
  uint64_t start = 0;
  uint64_t end = 0;
  std::string_view name;
};

/// Takes a hexadecimal number and the blank after it.
bool take_hexadecimal(std::string_view& text, uint64_t& value) {
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
  }
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (code != std::errc{} || rest == text.data() + text.size() || *rest != ' ') {
    return false;
  }
  text.remove_prefix(static_cast<size_t>(rest - text.data()) + 1);
  return true;
}

std::optional<Line> parse_line(std::string_view text) {
  Line line;
  uint64_t size = 0;
  if (!take_hexadecimal(text, line.start) || !take_hexadecimal(text, size) || size == 0 ||
      size > std::numeric_limits<uint64_t>::max() - line.start) {
    return std::nullopt;
  }
  line.end = line.start + size;
  line.name = trim(text);
  return line.name.empty() ? std::nullopt : std::optional(line);
}

/// When the process began, in UTC: rather too early, by the resolution of both clocks.
int64_t began_ns(const Procfs& procfs, pid_t pid) {
  constexpr int64_t kResolutionNs = 20 * kNsPerMs;  // a tick of 10 ms each
  timespec now{};
  if (::clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
    return 0;
  }
  const int64_t since_boot_ns = now.tv_sec * kNsPerSecond + now.tv_nsec;
  const auto ticks = static_cast<int64_t>(procfs.start_ticks(pid));
  return utc_now_ns() - since_boot_ns + ticks * (kNsPerSecond / ::sysconf(_SC_CLK_TCK)) - kResolutionNs;
}

}  // namespace

std::optional<std::map<uint64_t, std::string>> names_in_perf_map(std::string_view text,
                                                                 std::span<const uint64_t> addresses, int64_t most_ns) {
  const int64_t until_ns = monotonic_now_ns() + most_ns;
  std::vector<uint64_t> wanted(addresses.begin(), addresses.end());
  std::ranges::sort(wanted);
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  wanted.resize(std::min(wanted.size(), kMostAddresses));
  std::vector<std::string_view> found(wanted.size());
  for (size_t lines = 0; !text.empty(); ++lines) {
    if (lines % kLinesBetweenClocks == 0 && monotonic_now_ns() > until_ns) {
      return std::nullopt;
    }
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      break;  // the process may be writing this line
    }
    const auto line = parse_line(text.substr(0, end));
    text.remove_prefix(end + 1);
    if (!line) {
      continue;
    }
    for (auto at = std::ranges::lower_bound(wanted, line->start); at != wanted.end() && *at < line->end; ++at) {
      found[static_cast<size_t>(at - wanted.begin())] = line->name;
    }
  }
  std::map<uint64_t, std::string> names;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!found[i].empty()) {
      names.emplace(wanted[i], cut_text(printable(found[i].substr(0, 2 * kLongestName)), kLongestName));
    }
  }
  return names;
}

std::string read_perf_map(const Procfs& procfs, Mounts& mounts, pid_t pid, int64_t until_ns) {
  const std::string name = fmt::format("perf-{}.map", procfs.inner_pid(pid));
  const auto file = UntrustedFile::open_in_root(procfs, mounts, pid, "/tmp", name);
  if (!file || file->identity().size > kMostPerfMapBytes || reason_for_distrust(procfs, pid, *file, {}) ||
      file->identity().modified_ns < began_ns(procfs, pid)) {
    return {};
  }
  std::string text(static_cast<size_t>(file->identity().size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    if (monotonic_now_ns() > until_ns) {
      return {};
    }
    const size_t some = std::min(text.size() - done, kBytesBetweenClocks);
    const ssize_t got = ::pread(file->fd(), text.data() + done, some, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace stalltrace::stacks
