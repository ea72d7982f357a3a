// SPDX-License-Identifier: Apache-2.0
// Values in messages between this program and its helper processes: as they lie in memory, padding included, so both
// ends are the same build. The other end may have been taken over by the file it reads: a value has the right size and
// nothing else is certain of it, so T has no invalid bit patterns (no bool, no enum, no pointer) unless the caller
// checks it.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace stalltrace {

/// Appends the value.
template <typename T>
void put(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Takes the value off the front. False: fewer bytes are left; nothing was changed.
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
