// SPDX-License-Identifier: Apache-2.0
#include "reduce.h"

#include <array>
#include <cstdint>
#include <type_traits>

#include "small_float.h"

namespace lab::nccl {
namespace {

template <typename T>
constexpr bool kIsSmallFloat = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

template <typename T>
auto widen(T value) {
  if constexpr (kIsSmallFloat<T>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

template <typename T, typename Wide>
T narrow(Wide value) {
  if constexpr (kIsSmallFloat<T>) {
    return T::from(value);
  } else {
    return static_cast<T>(value);
  }
}

// Integers wrap around, as on the device: arithmetic in the unsigned type, at least as wide as unsigned int.
template <typename T>
struct WrapType {
  using type = T;
};
template <typename T>
requires std::is_integral_v<T>
struct WrapType<T> {
  using type = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
};
template <typename T>
using Wrap = typename WrapType<T>::type;

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
  }
};
struct Prod {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return a > b ? a : b;
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return a < b ? a : b;
  }
};

template <typename T, typename Op>
void combine_elements(const void* a, const void* b, void* out, size_t count) {
  const auto* left = static_cast<const T*>(a);
  const auto* right = static_cast<const T*>(b);
  auto* result = static_cast<T*>(out);
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    result[i] = narrow<T>(Op::apply(widen(left[i]), widen(right[i])));
  }
}

template <typename T>
void divide_elements(void* values, size_t count, int by) {
  auto* value = static_cast<T*>(values);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T>) {
      value[i] = static_cast<T>(value[i] / static_cast<unsigned>(by));
    } else if constexpr (std::is_integral_v<T>) {
      value[i] = static_cast<T>(value[i] / by);
    } else {
      const auto wide = widen(value[i]);
      value[i] = narrow<T>(wide / static_cast<std::remove_const_t<decltype(wide)>>(by));
    }
  }
}

using Kernel = void (*)(const void*, const void*, void*, size_t);
using Divide = void (*)(void*, size_t, int);

struct TypeRow {
  size_t bytes = 0;
  std::array<Kernel, ncclNumOps> kernels{};
  Divide divide = nullptr;
};

template <typename T>
constexpr TypeRow row() {
  return {.bytes = sizeof(T),
          .kernels = {combine_elements<T, Sum>, combine_elements<T, Prod>, combine_elements<T, Max>,
                      combine_elements<T, Min>, combine_elements<T, Sum>},
          .divide = divide_elements<T>};
}

// In the order of ncclDataType_t and ncclRedOp_t.
constexpr std::array<TypeRow, ncclNumTypes> kTypes{
    row<int8_t>(),  row<uint8_t>(), row<int32_t>(), row<uint32_t>(), row<int64_t>(),      row<uint64_t>(),
    row<Float16>(), row<float>(),   row<double>(),  row<Bfloat16>(), TypeRow{.bytes = 1}, TypeRow{.bytes = 1}};

}  // namespace

size_t element_bytes(ncclDataType_t type) { return type >= 0 && type < ncclNumTypes ? kTypes[type].bytes : 0; }

bool Reducer::supports(ncclDataType_t type, ncclRedOp_t op) {
  return type >= 0 && type < ncclNumTypes && op >= 0 && op < ncclNumOps && kTypes[type].kernels[op] != nullptr;
}

Reducer::Reducer(ncclDataType_t type, ncclRedOp_t op, int nranks)
    : kernel_(kTypes[type].kernels[op]),
      divide_(op == ncclAvg ? kTypes[type].divide : nullptr),
      element_bytes_(kTypes[type].bytes),
      nranks_(nranks) {}

void Reducer::combine(const std::byte* own, const std::byte* other, std::byte* result, size_t bytes, bool last) const {
  const size_t count = bytes / element_bytes_;
  kernel_(own, other, result, count);
  if (last && divide_ != nullptr) {
    divide_(result, count, nranks_);
  }
}

}  // namespace lab::nccl
