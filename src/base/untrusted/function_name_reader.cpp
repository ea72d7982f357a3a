// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/function_name_reader.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "base/untrusted/bytes.h"

namespace stalltrace {
namespace {

constexpr size_t kLongestName = 200;  // bytes; functions_at() gives less
constexpr size_t kShortestId = 4;
constexpr size_t kLongestId = 128;
constexpr size_t kMostOffsets = 256;  // of a request: the answer fits into one message

/// Empty where all have names.
CodeAddresses addresses_of_unnamed(int fd, std::span<const uint64_t> offsets,
                                   std::span<const std::optional<CodeLocation>> locations) {
  const bool all_named = std::ranges::all_of(locations, [](const auto& location) { return location.has_value(); });
  return all_named ? CodeAddresses{} : code_addresses(fd, offsets);
}

HelperMessage serve_names(HelperMessage request) {
  std::vector<uint64_t> offsets;
  std::string_view bytes = request.bytes;
  for (uint64_t offset = 0; take_value(bytes, offset);) {
    offsets.push_back(offset);
  }
  const auto locations = functions_at(request.fd.get(), offsets);
  const CodeAddresses code = addresses_of_unnamed(request.fd.get(), offsets, locations);
  return {.bytes = addresses_to_bytes(code) + locations_to_bytes(locations), .fd = {}};
}

bool is_hexadecimal(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string locations_to_bytes(std::span<const std::optional<CodeLocation>> locations) {
  std::string bytes;
  for (const auto& location : locations) {
    put(bytes, static_cast<uint8_t>(location ? 1 : 0));
    if (location) {
      put(bytes, location->into);
      put(bytes, static_cast<uint32_t>(location->function.size()));
      bytes += location->function;
    }
  }
  return bytes;
}

std::optional<FunctionNameReader::Locations> locations_from_bytes(std::string_view bytes, size_t offsets) {
  FunctionNameReader::Locations locations;
  uint8_t known = 0;
  while (take_value(bytes, known)) {
    if (known == 0) {
      locations.emplace_back();
      continue;
    }
    CodeLocation location;
    uint32_t length = 0;
    if (known != 1 || !take_value(bytes, location.into) || !take_value(bytes, length) || length > bytes.size()) {
      return std::nullopt;
    }
    location.function = printable(bytes.substr(0, std::min<size_t>(length, kLongestName)));
    bytes.remove_prefix(length);
    locations.emplace_back(std::move(location));
  }
  return locations.size() == offsets ? std::optional(std::move(locations)) : std::nullopt;
}

std::string addresses_to_bytes(const CodeAddresses& code) {
  std::string bytes;
  put(bytes, static_cast<uint32_t>(code.build_id.size()));
  bytes += code.build_id;
  put(bytes, static_cast<uint32_t>(code.addresses.size()));
  for (const uint64_t address : code.addresses) {
    put(bytes, address);
  }
  return bytes;
}

std::optional<CodeAddresses> addresses_from_bytes(std::string_view& bytes, size_t offsets) {
  CodeAddresses code;
  uint32_t length = 0;
  uint32_t count = 0;
  if (!take_value(bytes, length) || length > std::min(bytes.size(), kLongestId)) {
    return std::nullopt;
  }
  code.build_id = bytes.substr(0, length);
  bytes.remove_prefix(length);
  if (!is_hexadecimal(code.build_id) || !take_value(bytes, count) || (count != 0 && count != offsets)) {
    return std::nullopt;
  }
  code.addresses.resize(count);
  for (uint64_t& address : code.addresses) {
    if (!take_value(bytes, address)) {
      return std::nullopt;
    }
  }
  return code;
}

FunctionNameReader::FunctionNameReader(std::string symbols, ReadBy read_by)
    : symbols_(std::move(symbols)), read_by_(read_by), child_(serve_names, HelperProcess::Rights::kNone) {}

int64_t FunctionNameReader::limit_here(int64_t until_ns) const {
  return read_by_ == ReadBy::kThisProcess ? until_ns : INT64_MAX;
}

std::optional<FunctionNameReader::Named> FunctionNameReader::read(const UntrustedFile& file,
                                                                  std::span<const uint64_t> file_offsets,
                                                                  int64_t until_ns) {
  if (read_by_ == ReadBy::kThisProcess || (file.owner() == 0 && !file.others_may_write())) {
    Named named{.locations = stalltrace::functions_at(file.fd(), file_offsets, limit_here(until_ns)), .code = {}};
    named.code = addresses_of_unnamed(file.fd(), file_offsets, named.locations);
    return named;
  }
  const int64_t most_ns = until_ns - monotonic_now_ns();
  if (most_ns <= 0) {
    return std::nullopt;
  }
  if (file.owner() != read_for_) {
    child_.end();
    read_for_ = file.owner();
  }
  HelperMessage request{.bytes = {}, .fd = file.duplicate()};
  const auto asked = file_offsets.first(std::min(file_offsets.size(), kMostOffsets));
  for (const uint64_t offset : asked) {
    put(request.bytes, offset);
  }
  const auto answer = child_.ask_and_wait(request, most_ns);
  std::string_view bytes = answer ? std::string_view(answer->bytes) : std::string_view();
  auto code = addresses_from_bytes(bytes, asked.size());
  auto locations = code ? locations_from_bytes(bytes, asked.size()) : std::nullopt;
  if (!locations) {
    return std::nullopt;
  }
  locations->resize(file_offsets.size());
  return Named{std::move(*locations), std::move(*code)};
}

void FunctionNameReader::name_rest(Named& named, int64_t until_ns) {
  const std::string& id = named.code.build_id;
  if (id.size() < kShortestId || named.code.addresses.empty()) {
    return;
  }
  const std::string path = symbols_ + "/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug";
  if (!mounts_.is_local_path(path)) {
    return;
  }
  const auto file = UntrustedFile::open_path(path);
  if (!file || (file->owner() != 0 && file->owner() != ::geteuid()) || file->others_may_write()) {
    return;
  }
  auto found = functions_at_addresses(file->fd(), named.code.addresses, limit_here(until_ns));
  for (size_t i = 0; i < found.size(); ++i) {
    if (!named.locations[i]) {
      named.locations[i] = std::move(found[i]);
    }
  }
}

std::optional<FunctionNameReader::Locations> FunctionNameReader::functions_at(const UntrustedFile& file,
                                                                              std::span<const uint64_t> file_offsets,
                                                                              int64_t most_ns) {
  const int64_t until_ns = monotonic_now_ns() + most_ns;
  auto named = read(file, file_offsets, until_ns);
  if (!named) {
    return std::nullopt;
  }
  name_rest(*named, until_ns);
  return std::move(named->locations);
}

}  // namespace stalltrace
