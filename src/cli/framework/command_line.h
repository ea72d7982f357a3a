// SPDX-License-Identifier: Apache-2.0
// From words typed to members filled: gives the words that args.h has sorted to the rows of flag.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/framework/flag.h"

namespace stalltrace::cli {

enum class Parsed : uint8_t { kRun, kHelpWanted };

/// Hands each word after the subcommand `name` ("lab run") to the row it belongs to. Errors are ErrorKind::kUsage and
/// quote the word; where the right command line can be known, the remedy holds it. Targets may have been filled in part
/// by then.
Result<Parsed> parse_args(std::string_view name, std::span<const std::string> words, std::span<const Flag> flags);

}  // namespace stalltrace::cli
