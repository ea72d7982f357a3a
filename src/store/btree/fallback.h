// SPDX-License-Identifier: Apache-2.0
// Why rows are read with SQL although the page reader is faster. Internal to store/.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace stalltrace::store {

enum class Fallback : uint8_t {
  kNone,         // the pages were read
  kOpenFile,     // a tracer may still write to the file, or it has a log beside it
  kTableLayout,  // no such table, a key that is not the row's id, generated or default values, too many columns
  kFileHeader,   // not UTF-8, or an impossible page size
  kPageTree,     // a page of another kind, ids that don't ascend, a page visited twice or outside the file
  kSpilledRow,   // a row too large for its page
  kRecord,       // a row's header that claims more than the row has
  kValueType,    // a value of a type that its column does not have
};
inline constexpr size_t kFallbacks = 8;

/// For a person: "a row too large for its page".
std::string_view to_text(Fallback fallback);

/// How often each was met, over all tables and threads.
using FallbackCounts = std::array<std::atomic<int64_t>, kFallbacks>;

}  // namespace stalltrace::store
