// SPDX-License-Identifier: Apache-2.0
#include "capture/host/host_files.h"

#include <charconv>

#include "base/text.h"

namespace stalltrace::capture {
namespace {

std::optional<uint64_t> number(std::string_view text, int base = 10) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::vector<SoftnetCpu> parse_softnet(std::string_view text) {
  std::vector<SoftnetCpu> cpus;
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split_fields(line);
    if (fields.size() >= 3) {
      cpus.push_back({number(fields[1], 16).value_or(0), number(fields[2], 16).value_or(0)});
    }
  }
  return cpus;
}

std::vector<InterfaceCounters> parse_net_dev(std::string_view text) {
  constexpr size_t kColumns = 16;  // 8 for receiving (bytes packets errs drop ...), 8 for sending
  std::vector<InterfaceCounters> interfaces;
  for (const std::string_view line : split(text, '\n')) {
    const size_t colon = line.find(':');
    const auto fields =
        colon == std::string_view::npos ? std::vector<std::string_view>() : split_fields(line.substr(colon + 1));
    if (fields.size() >= kColumns) {
      const auto column = [&](size_t index) { return number(fields[index]).value_or(0); };
      interfaces.push_back({std::string(trim(line.substr(0, colon))), column(2), column(3), column(10), column(11)});
    }
  }
  return interfaces;
}

std::optional<uint64_t> parse_pressure(std::string_view text, std::string_view kind) {
  constexpr std::string_view kTotal = "total=";
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split_fields(line);
    if (!fields.empty() && fields.front() == kind && fields.back().starts_with(kTotal)) {
      return number(fields.back().substr(kTotal.size()));
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> parse_keyed(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = split_fields(line);
    if (fields.size() == 2 && fields[0] == key) {
      return number(fields[1]);
    }
  }
  return std::nullopt;
}

std::vector<CgroupPath> parse_cgroups(std::string_view text) {
  std::vector<CgroupPath> cgroups;
  for (const std::string_view line : split(text, '\n')) {
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second != std::string_view::npos) {
      cgroups.push_back(
          {std::string(line.substr(first + 1, second - first - 1)), std::string(line.substr(second + 1))});
    }
  }
  return cgroups;
}

}  // namespace stalltrace::capture
