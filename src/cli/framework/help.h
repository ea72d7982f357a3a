// SPDX-License-Identifier: Apache-2.0
// Help pages, generated from the subcommands' rows.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cli/framework/subcommand.h"

namespace stalltrace::cli {

/// "stalltrace query FILE SQL [flags]"
std::string usage_line(const VerbInfo& info, std::span<const Flag> flags);
std::string verb_help(Subcommand& verb);
/// The subcommands of one group: "" for all, "lab" for those of the lab.
std::string overview(std::span<const std::unique_ptr<Subcommand>> verbs, std::string_view group);

}  // namespace stalltrace::cli
