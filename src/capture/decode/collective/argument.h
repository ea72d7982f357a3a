// SPDX-License-Identifier: Apache-2.0
// Numbers of the records that the BPF programs send.
#pragma once

#include <cstdint>
#include <optional>

namespace stalltrace::capture {

/// An argument of a call, or nullopt: a record holds -1 where the call has no such argument.
inline std::optional<int32_t> unless_negative(int32_t value) { return value < 0 ? std::nullopt : std::optional(value); }

/// How many ranks a communicator has, or nullopt: what a record holds is the process's, which may be of no
/// communicator.
inline std::optional<int32_t> number_of_ranks(int32_t value) { return value > 0 ? std::optional(value) : std::nullopt; }

/// How many elements a call is about, or nullopt: a number that no buffer can hold is none.
inline std::optional<int64_t> number_of_elements(uint64_t value) {
  constexpr uint64_t kMost = uint64_t{1} << 50U;
  return value < kMost ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
}

}  // namespace stalltrace::capture
