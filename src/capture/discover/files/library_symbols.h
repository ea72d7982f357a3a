// SPDX-License-Identifier: Apache-2.0
// Serialises a library's symbols between the child process that found them and the tracer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "capture/discover/elf_symbols.h"

namespace stalltrace::capture {

std::string symbols_to_bytes(const FileSymbols& symbols);
/// nullopt if the bytes are garbled, or have points that a file of this size can't have: the file may have subverted
/// the child.
std::optional<FileSymbols> symbols_from_bytes(std::string_view bytes, uint64_t file_bytes);

}  // namespace stalltrace::capture
