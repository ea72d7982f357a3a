// SPDX-License-Identifier: Apache-2.0
// Reasons for reading rows with SQL although the page reader is faster. Internal to store/.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace stalltrace::store {

enum class Fallback : uint8_t {
  kNone,         // the pages were read
  kOpenFile,     // a tracer may still write to the file, or a log exists
  kTableLayout,  // no such table, a key that is not the row's id, generated or default values, too many columns
  kRefused,      // it could not be opened a second time, or was replaced or changed
  kFileHeader,   // not UTF-8, or an impossible page size
  kPageTree,     // another kind of page, ids that don't ascend, a page visited twice or outside the file
  kSpilledRow,   // a row too large for its page
  kRecord,       // a row's header that claims more than the row contains
  kValueType,    // a value whose type its column does not have
};
inline constexpr size_t kFallbacks = 9;

/// Text for people: "a row too large for its page".
std::string_view to_text(Fallback fallback);

/// Number of occurrences of each reason, over all tables and threads.
using FallbackCounts = std::array<std::atomic<int64_t>, kFallbacks>;

}  // namespace stalltrace::store
