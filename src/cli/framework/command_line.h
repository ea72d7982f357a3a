// SPDX-License-Identifier: Apache-2.0
// From words typed to members filled. The implementation is the only file that includes CLI11 (it is slow to compile).
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "cli/framework/flag.h"

namespace stalltrace::cli {

enum class Parsed : uint8_t { kRun, kHelpWanted };

/// Hands each word after the verb to the flag it belongs to. Errors are ErrorKind::kUsage and name the word;
/// targets may have been filled in part by then.
Result<Parsed> parse_args(std::span<const std::string> words, std::span<const Flag> flags);

}  // namespace stalltrace::cli
