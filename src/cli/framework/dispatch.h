// SPDX-License-Identifier: Apache-2.0
// From the command line to an exit code: finds the subcommand, parses, runs it, and prints an Error as one line.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "cli/framework/subcommand.h"

namespace stalltrace::cli {

/// `words` is argv without the program's name.
int dispatch(std::span<const std::string> words, std::span<const std::unique_ptr<Subcommand>> subcommands,
             Console& console);

/// Prints the error; returns its exit code.
int report_error(const Error& error, Console& console);

}  // namespace stalltrace::cli
