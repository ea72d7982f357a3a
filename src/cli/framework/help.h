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
std::string subcommand_help(Subcommand& subcommand);
/// The subcommands of one group: "" for all, "lab" for those of the lab.
std::string overview(std::span<const std::unique_ptr<Subcommand>> subcommands, std::string_view group);

}  // namespace stalltrace::cli
