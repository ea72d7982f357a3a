// SPDX-License-Identifier: Apache-2.0
// Values in messages between this program and its helper processes.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace stalltrace {

template <typename T>
void put(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
bool take_value(std::string_view& bytes, T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() < sizeof value) {
    return false;
  }
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

}  // namespace stalltrace
