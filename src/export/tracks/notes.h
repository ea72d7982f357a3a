// SPDX-License-Identifier: Apache-2.0
// The annotations of one event, built up.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "export/encode/trace_encoder.h"

namespace stalltrace::trace_export {

/// Reused for one event after the other.
class Notes {
 public:
  Notes& clear() {
    all_.clear();
    return *this;
  }
  template <typename T>
  requires std::is_integral_v<T> Notes& add(const char* name, T value) {
    if constexpr (std::is_same_v<T, bool>) {
      all_.push_back({name, value});
    } else if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
      all_.push_back({name, uint64_t{value}});
    } else {
      all_.push_back({name, int64_t{value}});
    }
    return *this;
  }
  Notes& add(const char* name, double value) {
    all_.push_back({name, value});
    return *this;
  }
  /// Unknown texts are left out; `text` must live until the event is written.
  Notes& add(const char* name, std::string_view text) {
    if (!text.empty()) {
      all_.push_back({name, text});
    }
    return *this;
  }
  Notes& unique(const char* name, std::string_view text) {
    if (!text.empty()) {
      all_.push_back({name, UniqueText{text}});
    }
    return *this;
  }
  Notes& hex(const char* name, uint64_t value) {
    all_.push_back({name, Hex{value}});
    return *this;
  }
  template <typename T>
  Notes& add(const char* name, const std::optional<T>& value) {
    return value ? add(name, *value) : *this;
  }
  operator Annotations() const { return all_; }  // NOLINT(google-explicit-constructor)

 private:
  std::vector<Annotation> all_;
};

}  // namespace stalltrace::trace_export
