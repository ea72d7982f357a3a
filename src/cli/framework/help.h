// SPDX-License-Identifier: Apache-2.0
// Help pages, generated from the subcommands' rows.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cli/framework/subcommand.h"

namespace stalltrace::cli {

/// "stalltrace query FILE SQL [flags]"
std::string usage_line(const SubcommandInfo& info, std::span<const Flag> flags);
/// The page of one subcommand: usage, arguments, flags, details, an example. Lines are broken at 100 columns. In
/// `details` and help texts, lines of a paragraph that the source broke are joined; indented ones stay as they are.
std::string subcommand_help(Subcommand& subcommand);
/// The subcommands of one group: "" for all, "lab" for those of the lab.
std::string overview(std::span<const std::unique_ptr<Subcommand>> subcommands, std::string_view group);

}  // namespace stalltrace::cli
