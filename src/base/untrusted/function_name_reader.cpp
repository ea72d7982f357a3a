// SPDX-License-Identifier: Apache-2.0
#include "base/untrusted/function_name_reader.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "base/untrusted/bytes.h"

namespace stalltrace {
namespace {

constexpr size_t kLongestName = 200;  // bytes; functions_at() gives less
constexpr size_t kMostOffsets = 256;  // of a request: the answer fits into one message

HelperMessage serve_names(HelperMessage request) {
  std::vector<uint64_t> offsets;
  std::string_view bytes = request.bytes;
  for (uint64_t offset = 0; take_value(bytes, offset);) {
    offsets.push_back(offset);
  }
  return {.bytes = locations_to_bytes(functions_at(request.fd.get(), offsets)), .fd = {}};
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

FunctionNameReader::FunctionNameReader() : child_(serve_names, HelperProcess::Rights::kNone) {}

std::optional<FunctionNameReader::Locations> FunctionNameReader::functions_at(const UntrustedFile& file,
                                                                              std::span<const uint64_t> file_offsets,
                                                                              int64_t most_ns) {
  if (file.owner() == 0 && !file.others_may_write()) {
    return stalltrace::functions_at(file.fd(), file_offsets);
  }
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
  const int64_t until_ns = monotonic_now_ns() + most_ns;
  if (!child_.ask(request)) {
    return std::nullopt;
  }
  HelperMessage answer;
  auto outcome = child_.receive(answer);
  for (int64_t left_ns = most_ns; outcome == HelperProcess::Outcome::kWaiting && left_ns > 0;
       left_ns = until_ns - monotonic_now_ns()) {
    pollfd wake{.fd = child_.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&wake, 1, static_cast<int>(left_ns / kNsPerMs) + 1);
    outcome = child_.receive(answer);
  }
  if (outcome != HelperProcess::Outcome::kAnswered) {
    child_.end();
    return std::nullopt;
  }
  auto locations = locations_from_bytes(answer.bytes, asked.size());
  if (locations) {
    locations->resize(file_offsets.size());
  }
  return locations;
}

}  // namespace stalltrace
