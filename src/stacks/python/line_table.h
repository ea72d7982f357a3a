// SPDX-License-Identifier: Apache-2.0
// Instruction → source line, from a code object's table. Pure; the table is untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace stalltrace::stacks {

/// The line of the instruction at `offset` (bytes from the first; negative: before it). nullopt where the table gives
/// no line or ends before the offset. Formats: co_lnotab (3.9, Objects/lnotab_notes.txt), the line table of PEP 626
/// (3.10), the location table (from 3.11, Objects/locations.md). Linear in the table's size.
std::optional<int32_t> line_of(uint32_t minor, std::span<const std::byte> table, int32_t first_line, int64_t offset);

}  // namespace stalltrace::stacks
