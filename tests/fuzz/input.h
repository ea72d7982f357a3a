// SPDX-License-Identifier: Apache-2.0
// An input read from its beginning as numbers and pieces. Behind its end everything is zero or empty.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace stalltrace::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(data, size) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }

  /// Big-endian.
  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      value = value << 8U | (rest_.empty() ? 0 : rest_.front());
      rest_ = rest_.subspan(rest_.empty() ? 0 : 1);
    }
    return value;
  }
  std::span<const uint8_t> piece(size_t bytes) {
    const auto taken = rest_.first(std::min(bytes, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  /// Its size first, in two bytes.
  std::span<const uint8_t> sized_piece() { return piece(number(2)); }
  std::string_view text() {
    const auto all = piece(rest_.size());
    return {reinterpret_cast<const char*>(all.data()), all.size()};
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace stalltrace::fuzz
