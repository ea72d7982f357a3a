// SPDX-License-Identifier: Apache-2.0
#include "serve/rows/row_frames.h"

namespace stalltrace::serve {
namespace {

constexpr size_t kHeadBytes = 5;
constexpr size_t kNumberBytes = 4;
constexpr size_t kMostFrameBytes = 8 << 20;
constexpr unsigned kBitsInByte = 8;

void put_number(std::string& to, uint32_t number) {
  for (size_t i = 0; i < kNumberBytes; ++i) {
    to.push_back(static_cast<char>(number >> (i * kBitsInByte)));
  }
}

uint32_t number_at(std::string_view bytes) {
  uint32_t number = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) {
    number |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (i * kBitsInByte);
  }
  return number;
}

}  // namespace

std::string frame_head(FrameKind kind, size_t size) {
  std::string head(1, static_cast<char>(kind));
  put_number(head, static_cast<uint32_t>(size));
  return head;
}

std::string frame_of_header(uint32_t read, std::string_view columns) {
  std::string content;
  put_number(content, read);
  content += columns;
  return content;
}

Status FrameReader::add(std::string_view bytes, const Take& take) {
  rest_ += bytes;
  std::string_view left(rest_);
  while (left.size() >= kHeadBytes) {
    const char kind = left.front();
    const size_t size = number_at(left.substr(1));
    if ((kind != 'H' && kind != 'B' && kind != 'E') || size > kMostFrameBytes) {
      return fail("the rows that it sends are damaged", "use the same version of stalltrace on both sides",
                  ErrorKind::kCorrupt);
    }
    if (left.size() < kHeadBytes + size) {
      break;
    }
    ST_TRY(take(static_cast<FrameKind>(kind), left.substr(kHeadBytes, size)));
    left.remove_prefix(kHeadBytes + size);
  }
  rest_.erase(0, rest_.size() - left.size());
  return {};
}

std::optional<uint32_t> take_read_number(std::string_view& header) {
  if (header.size() < kNumberBytes) {
    return std::nullopt;
  }
  const uint32_t number = number_at(header);
  header.remove_prefix(kNumberBytes);
  return number;
}

}  // namespace stalltrace::serve
