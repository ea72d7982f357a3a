// SPDX-License-Identifier: Apache-2.0
// Elements of every datatype as doubles, and the serial reductions that collectives are compared with.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ostream>
#include <vector>

namespace lab::test {

using Bytes = std::vector<std::byte>;

struct TypeInfo {
  ncclDataType_t type;
  const char* name;
  size_t bytes;
};
inline constexpr TypeInfo kTypes[] = {
    {ncclInt8, "int8", 1},         {ncclUint8, "uint8", 1},     {ncclInt32, "int32", 4},
    {ncclUint32, "uint32", 4},     {ncclInt64, "int64", 8},     {ncclUint64, "uint64", 8},
    {ncclFloat16, "float16", 2},   {ncclFloat32, "float32", 4}, {ncclFloat64, "float64", 8},
    {ncclBfloat16, "bfloat16", 2},
};
inline const TypeInfo& info_of(ncclDataType_t type) { return *std::ranges::find(kTypes, type, &TypeInfo::type); }

/// A float16 or bfloat16 as its definition says: sign, exponent, fraction.
inline double decode_small(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                         : std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// The bits of a value that the type can hold exactly, found by its definition.
inline uint16_t encode_small(double value, int exponent_bits, int fraction_bits) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (value == 0) {
    return sign;
  }
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<int>(std::ldexp(fraction, fraction_bits + 1)) - (1 << fraction_bits);
  return static_cast<uint16_t>(sign | ((exponent - 1 + bias) << fraction_bits) | mantissa);
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

inline double get(ncclDataType_t type, const Bytes& data, size_t i) {
  const std::byte* at = data.data() + i * info_of(type).bytes;
  switch (type) {
    case ncclInt8:
      return load<int8_t>(at);
    case ncclUint8:
      return load<uint8_t>(at);
    case ncclInt32:
      return load<int32_t>(at);
    case ncclUint32:
      return load<uint32_t>(at);
    case ncclInt64:
      return static_cast<double>(load<int64_t>(at));
    case ncclUint64:
      return static_cast<double>(load<uint64_t>(at));
    case ncclFloat16:
      return decode_small(load<uint16_t>(at), 5, 10);
    case ncclFloat32:
      return load<float>(at);
    case ncclFloat64:
      return load<double>(at);
    case ncclBfloat16:
      return decode_small(load<uint16_t>(at), 8, 7);
    default:
      return NAN;
  }
}

inline void set(ncclDataType_t type, Bytes& data, size_t i, double value) {
  std::byte* at = data.data() + i * info_of(type).bytes;
  switch (type) {
    case ncclInt8:
      return store(at, static_cast<int8_t>(value));
    case ncclUint8:
      return store(at, static_cast<uint8_t>(value));
    case ncclInt32:
      return store(at, static_cast<int32_t>(value));
    case ncclUint32:
      return store(at, static_cast<uint32_t>(value));
    case ncclInt64:
      return store(at, static_cast<int64_t>(value));
    case ncclUint64:
      return store(at, static_cast<uint64_t>(value));
    case ncclFloat16:
      return store(at, encode_small(value, 5, 10));
    case ncclFloat32:
      return store(at, static_cast<float>(value));
    case ncclFloat64:
      return store(at, value);
    case ncclBfloat16:
      return store(at, encode_small(value, 8, 7));
    default:
      return;
  }
}

/// Rank r's element i: 1 to 3, so that products of five ranks and sums fit every type; some ranks differ in sign where
/// the type has one.
inline double sample(ncclDataType_t type, int rank, size_t i) {
  const auto magnitude = static_cast<double>((i * 7 + static_cast<size_t>(rank) * 5) % 3 + 1);
  const bool is_signed = type != ncclUint8 && type != ncclUint32 && type != ncclUint64;
  return is_signed && (i + static_cast<size_t>(rank)) % 4 == 0 ? -magnitude : magnitude;
}

inline Bytes samples(ncclDataType_t type, int rank, size_t count, size_t first = 0) {
  Bytes data(count * info_of(type).bytes);
  for (size_t i = 0; i < count; ++i) {
    set(type, data, i, sample(type, rank, first + i));
  }
  return data;
}

/// The reduction of all ranks' element i, computed one after the other.
inline double reduced(ncclDataType_t type, ncclRedOp_t op, int nranks, size_t i) {
  double value = sample(type, 0, i);
  for (int rank = 1; rank < nranks; ++rank) {
    const double other = sample(type, rank, i);
    switch (op) {
      case ncclProd:
        value *= other;
        break;
      case ncclMax:
        value = std::max(value, other);
        break;
      case ncclMin:
        value = std::min(value, other);
        break;
      default:
        value += other;
        break;
    }
  }
  if (op != ncclAvg) {
    return value;
  }
  const bool whole = info_of(type).type <= ncclUint64;
  return whole ? std::trunc(value / nranks) : value / nranks;
}

/// How far a result may be from the exact one: half a unit in the last digit of an average, nothing otherwise.
inline double tolerance(ncclDataType_t type, ncclRedOp_t op) {
  if (op != ncclAvg) {
    return 0;
  }
  return type == ncclFloat16 ? 0x1p-10 : type == ncclBfloat16 ? 0x1p-7 : type == ncclFloat32 ? 0x1p-22 : 1e-15;
}

}  // namespace lab::test
