// SPDX-License-Identifier: Apache-2.0
#include "import/kernel_log/message.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/clock.h"
#include "base/text.h"
#include "model/events/imported/kernel_failure.h"
#include "model/parse/log_time.h"

namespace stalltrace::import {
namespace {

constexpr size_t kLongestPrefix = 512;
constexpr size_t kLongestName = 128;

/// The digits at the beginning of the text.
template <typename Number>
std::optional<Number> leading_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && value >= 0 ? std::optional(value) : std::nullopt;
}

/// "0000:3b:00", "0000:3b:00.0": hexadecimal digits, colons and a point.
bool is_pci_address(std::string_view text) {
  const auto part = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
  return text.size() >= 7 && text.size() <= 16 && std::ranges::count(text, ':') >= 1 &&
         std::ranges::all_of(text, [&](char c) { return part(c) || c == ':' || c == '.'; });
}

std::string_view value_after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view rest = text.substr(at + key.size());
  return rest.substr(0, rest.find(','));
}

/// "Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus." from behind the parenthesis.
std::optional<KernelText> read_xid(std::string_view message, size_t parenthesis, KernelMessageKind kind) {
  std::string_view rest = message.substr(parenthesis);
  const size_t close = rest.substr(0, 64).find("): ");
  if (close == std::string_view::npos) {
    return std::nullopt;
  }
  KernelText read{.kind = kind};
  read.device = rest.substr(0, close);
  if (read.device.starts_with("PCI:")) {
    read.device.remove_prefix(4);
  }
  rest.remove_prefix(close + 3);
  read.code = leading_number<int32_t>(rest);
  const size_t end = rest.find_first_not_of("0123456789");  // without a comma it may be cut, and be another number
  if (!read.code || end == std::string_view::npos || rest[end] != ',' || !is_pci_address(read.device)) {
    return std::nullopt;
  }
  read.pid = leading_number<int32_t>(value_after(rest, " pid=")).value_or(0);
  read.process = value_after(rest, " name=").substr(0, kLongestName);
  if (read.process.starts_with('<')) {
    read.process = {};
  }
  return read;
}

/// "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), ..."
std::optional<KernelText> read_pcie(std::string_view line, size_t anchor, KernelMessageKind kind) {
  std::string_view before = line.substr(0, anchor);
  if (!before.ends_with(": ")) {
    return std::nullopt;
  }
  before.remove_suffix(2);
  const size_t begin = before.rfind(' ') + 1;  // 0 where there is none
  KernelText read{.kind = kind, .device = before.substr(begin)};
  if (!is_pci_address(read.device)) {
    return std::nullopt;
  }
  read.text = line.substr(begin);
  read.prefix = line.substr(0, begin);
  return read;
}

/// "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:..."
std::optional<KernelText> read_killed(std::string_view line, size_t anchor) {
  constexpr std::string_view kKilled = "Killed process ";
  const std::string_view rest = line.substr(anchor + kKilled.size());
  const auto pid = leading_number<int32_t>(rest);
  const size_t open = rest.find(" (");
  const size_t close = rest.find(')', open == std::string_view::npos ? rest.size() : open);
  if (!pid || *pid <= 0 || open > 12 || close == std::string_view::npos ||
      rest.find("total-vm:", close) == std::string_view::npos) {
    return std::nullopt;
  }
  KernelText read{.kind = KernelMessageKind::kOutOfMemory, .pid = *pid};
  read.process = rest.substr(open + 2, std::min(close - open - 2, kLongestName));
  size_t begin = anchor;
  for (const std::string_view why : {"Memory cgroup out of memory: ", "Out of memory: "}) {
    if (line.substr(0, anchor).ends_with(why)) {
      begin = anchor - why.size();
      break;
    }
  }
  read.text = line.substr(begin);
  read.prefix = line.substr(0, begin);
  return read;
}

/// The first PCI address behind `begin`, as a word: "amdgpu 0000:2f:00.0: ...".
std::string_view address_behind(std::string_view line, size_t begin) {
  for (size_t blank = line.find(' ', begin); blank != std::string_view::npos; blank = line.find(' ', blank + 1)) {
    std::string_view word = line.substr(blank + 1, line.find(' ', blank + 1) - blank - 1);
    word = word.substr(0, word.size() - (word.ends_with(':') ? 1 : 0));
    if (word.size() > 10 && word[4] == ':' && is_pci_address(word)) {
      return word;
    }
  }
  return {};
}

/// "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", or the last of three lines, without the device.
std::optional<KernelText> read_fallen(std::string_view line) {
  const size_t at = line.find("NVRM: ");
  if (at == std::string_view::npos || line.find("fallen off the bus", at) == std::string_view::npos) {
    return std::nullopt;
  }
  KernelText read{.kind = KernelMessageKind::kXid, .code = kFallenXid, .device = address_behind(line, at)};
  read.text = line.substr(at);
  read.prefix = line.substr(0, at);
  return read;
}

/// Of other drivers, and of the kernel itself.
std::optional<KernelText> read_failure(std::string_view line) {
  const KernelFailure* const failure = kernel_failure_in(line);
  if (failure == nullptr) {
    return std::nullopt;
  }
  KernelText read;
  size_t begin = line.find(failure->driver.empty() ? failure->words : failure->driver);
  begin -= begin >= 5 && line.substr(begin - 5, 5) == "[drm:" ? 5 : 0;
  read.device = failure->of == KernelFailure::Of::kHost ? std::string_view() : address_behind(line, begin);
  read.text = line.substr(begin);
  read.prefix = line.substr(0, begin);
  return read;
}

/// "[12345.678901]", "[   12.345678]" at the beginning of the text.
std::optional<int64_t> uptime_at(std::string_view text) {
  if (!text.starts_with('[')) {
    return std::nullopt;
  }
  size_t at = 1;
  while (at < text.size() && text[at] == ' ') {
    ++at;
  }
  const auto seconds = leading_number<int64_t>(text.substr(at));
  const size_t point = text.find_first_not_of("0123456789", at);
  constexpr size_t kDigits = 6;
  constexpr int64_t kMostSeconds = int64_t{1} << 32;
  if (!seconds || *seconds > kMostSeconds || point == std::string_view::npos || text[point] != '.' ||
      text.size() < point + kDigits + 2 || text[point + 1 + kDigits] != ']') {
    return std::nullopt;
  }
  const auto micros = leading_number<int64_t>(text.substr(point + 1, kDigits));
  const bool digits = std::ranges::all_of(text.substr(point + 1, kDigits), is_digit);
  return micros && digits ? std::optional(*seconds * kNsPerSecond + *micros * kNsPerUs) : std::nullopt;
}

/// True if an offset from UTC follows the first clock: "10:34:54,859532+00:00", "10:34:54.1Z".
bool has_offset(std::string_view text) {
  for (size_t colon = text.find(':'); colon != std::string_view::npos; colon = text.find(':', colon + 1)) {
    if (colon == 0 || colon + 1 >= text.size() || !is_digit(text[colon - 1]) || !is_digit(text[colon + 1])) {
      continue;
    }
    const size_t end = text.find_first_not_of("0123456789:.,", colon);
    return end != std::string_view::npos && std::string_view("+-Z").find(text[end]) != std::string_view::npos;
  }
  return false;
}

}  // namespace

std::optional<KernelText> read_kernel_message(std::string_view line) {
  const auto whole = [&](std::optional<KernelText> read, size_t begin) {
    if (read) {
      read->text = line.substr(begin);
      read->prefix = line.substr(0, begin);
    }
    return read;
  };
  constexpr std::string_view kXid = "NVRM: Xid (";
  if (const size_t at = line.find(kXid); at != std::string_view::npos) {
    return whole(read_xid(line, at + kXid.size(), KernelMessageKind::kXid), at);
  }
  constexpr std::string_view kSxid = "SXid (";
  if (const size_t at = line.find(kSxid); at != std::string_view::npos) {
    return whole(read_xid(line, at + kSxid.size(), KernelMessageKind::kSxid), at);
  }
  if (const size_t at = line.find("PCIe Bus Error: severity="); at != std::string_view::npos) {
    const bool corrected = line.substr(at + 25).starts_with("Correct");  // "Corrected", since Linux 6.8 "Correctable"
    return read_pcie(line, at, corrected ? KernelMessageKind::kPcieCorrected : KernelMessageKind::kPcieUncorrected);
  }
  if (const size_t at = line.find("DPC: containment event"); at != std::string_view::npos) {
    return read_pcie(line, at, KernelMessageKind::kPcieUncorrected);
  }
  if (const size_t at = line.find("Killed process "); at != std::string_view::npos) {
    return read_killed(line, at);
  }
  auto fallen = read_fallen(line);
  return fallen ? fallen : read_failure(line);
}

std::string_view gpu_in_first_line(std::string_view line) {
  constexpr std::string_view kFirst = "NVRM: The NVIDIA GPU ";
  const size_t at = line.find(kFirst);
  return at == std::string_view::npos ? std::string_view() : address_behind(line, at + kFirst.size() - 1);
}

KernelPrefix read_kernel_prefix(std::string_view prefix) {
  prefix = prefix.substr(prefix.size() - std::min(prefix.size(), kLongestPrefix));
  KernelPrefix read;
  constexpr std::string_view kKernel = " kernel:";
  if (const size_t at = prefix.rfind(kKernel); at != std::string_view::npos) {
    const std::string_view before = prefix.substr(0, at);
    read.host = before.substr(before.rfind(' ') + 1);
    const bool named = std::ranges::all_of(read.host, [](char c) {
      return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
    });
    read.host = named ? read.host : std::string_view();
  }
  for (size_t at = prefix.find('['); at != std::string_view::npos && !read.uptime_ns; at = prefix.find('[', at + 1)) {
    read.uptime_ns = uptime_at(prefix.substr(at));
  }
  return read;
}

std::optional<KernelTime> read_kernel_time(std::string_view prefix, int64_t file_written_ns) {
  prefix = prefix.substr(prefix.size() - std::min(prefix.size(), kLongestPrefix));
  const auto time_ns = find_time(prefix, {file_written_ns, true});
  if (!time_ns) {
    return std::nullopt;
  }
  // dmesg -T writes the year behind the clock: "[Mon Nov 23 15:57:09 2026]".
  const size_t close = prefix.find(']');
  if (prefix.find(" kernel:") == std::string_view::npos && close != std::string_view::npos && close >= 5 &&
      prefix[close - 5] == ' ') {
    const auto year = leading_number<int32_t>(prefix.substr(close - 4, 4));
    if (year && *year >= 1971 && *year <= 2095) {
      constexpr int64_t kNsPerYear = int64_t{31'556'952} * kNsPerSecond;
      const int64_t middle_ns = (*year - 1970) * kNsPerYear + kNsPerYear / 2;
      return KernelTime{find_time(prefix, {middle_ns, false}).value_or(*time_ns), false};
    }
  }
  return KernelTime{*time_ns, has_offset(prefix)};
}

bool is_kernel_line(std::string_view line) {
  line = line.substr(0, kLongestPrefix);
  std::string_view rest = line;
  if (rest.starts_with('<') && rest.find('>') < 5) {
    rest.remove_prefix(rest.find('>') + 1);
  }
  if (uptime_at(rest)) {
    return true;
  }
  const size_t kernel = line.find(" kernel: ");
  return kernel != std::string_view::npos && !read_kernel_prefix(line.substr(0, kernel + 9)).host.empty() &&
         find_time(line.substr(0, kernel), {}).has_value();
}

bool is_kernel_message(std::string_view line) { return read_kernel_message(line).has_value(); }

}  // namespace stalltrace::import
