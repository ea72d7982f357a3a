// SPDX-License-Identifier: Apache-2.0
// Assigns command-line words, sorted by args.h, to the members that the rows of flag.h are bound to.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/rights/secure_mode.h"
#include "cli/framework/flag.h"

namespace stalltrace::cli {

enum class Parsed : uint8_t { kRun, kHelpWanted };

/// Assigns each word after the subcommand `name` ("lab run") to its row. Errors are ErrorKind::kUsage and quote the
/// word; if the right command line can be determined, the remedy contains it. After an error some targets may already
/// be set. With `secure`, flags that are `privileged` are refused.
Result<Parsed> parse_args(std::string_view name, std::span<const std::string> words, std::span<const Flag> flags,
                          bool secure = in_secure_mode());

}  // namespace stalltrace::cli
