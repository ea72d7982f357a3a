// SPDX-License-Identifier: Apache-2.0
#include "pattern.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace lab::workload {
namespace {

uint16_t half_bits(unsigned value) {
  if (value == 0) {
    return 0;
  }
  const unsigned exponent = static_cast<unsigned>(std::bit_width(value)) - 1;
  return static_cast<uint16_t>(((exponent + 15U) << 10U) | ((value << (10U - exponent)) & 0x3ffU));
}

uint16_t bfloat_bits(unsigned value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16U);
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

}  // namespace

size_t type_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return 8;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 4;
  }
}

unsigned pattern(int rank, size_t i, long salt) {
  return static_cast<unsigned>((i * 5 + static_cast<size_t>(rank) * 3 + static_cast<size_t>(salt)) % 8);
}

std::vector<std::byte> encode(ncclDataType_t type, size_t count, const std::function<unsigned(size_t)>& value) {
  const size_t bytes = type_bytes(type);
  std::vector<std::byte> data(count * bytes);
  for (size_t i = 0; i < count; ++i) {
    std::byte* at = data.data() + i * bytes;
    switch (type) {
      case ncclFloat64:
        store(at, static_cast<double>(value(i)));
        break;
      case ncclFloat16:
        store(at, half_bits(value(i)));
        break;
      case ncclBfloat16:
        store(at, bfloat_bits(value(i)));
        break;
      default:
        store(at, static_cast<float>(value(i)));
        break;
    }
  }
  return data;
}

}  // namespace lab::workload
