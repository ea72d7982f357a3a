// SPDX-License-Identifier: Apache-2.0
// The rights of subcommands that read recordings and profiler files, which any user may have made.
#pragma once

#include <span>
#include <string>

namespace stalltrace::cli {

/// What a subcommand makes at its `out`.
enum class Makes { kFile, kFolder };

/// Whether the subcommand connects to other hosts.
enum class Network { kNone, kConnects };

/// Gives up all that such a subcommand does not need (base/rights/confinement.h). `out`: the file that it will make, or
/// the folder with files; empty: none. To be called before the first thread is started and before `inputs` are opened.
/// What the kernel has and does not take is reported in a line on standard error; the subcommand goes on.
void confine_to_reading(std::span<const std::string> inputs, const std::string& out = "", Makes makes = Makes::kFile,
                        Network network = Network::kNone);
/// The same for one that makes files in several folders, each with a slash at its end.
void confine_to_reading(std::span<const std::string> inputs, std::span<const std::string> folders);

}  // namespace stalltrace::cli
