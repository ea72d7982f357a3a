// SPDX-License-Identifier: Apache-2.0
// The 16-bit floating-point types, as storage with conversions to and from float (round to nearest even).
#pragma once

#include <bit>
#include <cstdint>

namespace lab::nccl {

/// 8 exponent bits, 7 fraction bits: the upper half of a float.
struct Bfloat16 {
  uint16_t bits;

  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U); }
  static Bfloat16 from(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    if (value != value) {
      return {static_cast<uint16_t>((word >> 16U) | 0x40U)};
    }
    return {static_cast<uint16_t>((word + 0x7fffU + ((word >> 16U) & 1U)) >> 16U)};
  }
};

/// IEEE 754 binary16: 5 exponent bits, 10 fraction bits.
struct Float16 {
  uint16_t bits;

  explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16U;
    const uint32_t exponent = (bits >> 10U) & 0x1fU;
    const uint32_t fraction = bits & 0x3ffU;
    if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
      const float value = static_cast<float>(fraction) * 0x1p-24F;
      return sign != 0 ? -value : value;
    }
    const uint32_t wide_exponent = exponent == 0x1fU ? 0xffU : exponent + 112;
    return std::bit_cast<float>(sign | (wide_exponent << 23U) | (fraction << 13U));
  }
  static Float16 from(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((word >> 16U) & 0x8000U);
    const uint32_t magnitude = word & 0x7fffffffU;
    if (magnitude > 0x7f800000U) {
      return {static_cast<uint16_t>(sign | 0x7e00U)};  // not a number
    }
    if (magnitude >= 0x477ff000U) {
      return {static_cast<uint16_t>(sign | 0x7c00U)};  // rounds to infinity
    }
    if (magnitude < 0x38800000U) {  // subnormal: adding 0.5 lets the float unit align and round the fraction
      const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
      return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000U))};
    }
    const uint32_t rounded = magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13U) & 1U);
    return {static_cast<uint16_t>(sign | (rounded >> 13U))};
  }
};

}  // namespace lab::nccl
