// SPDX-License-Identifier: Apache-2.0
// Symbols of a library on their way from the child process that found them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "capture/discover/elf_symbols.h"

namespace stalltrace::capture {

std::string symbols_to_bytes(const FileSymbols& symbols);
/// None: garbled, or with points that no table has. The child may have been subverted by what it read.
std::optional<FileSymbols> symbols_from_bytes(std::string_view bytes);

}  // namespace stalltrace::capture
