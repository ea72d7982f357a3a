// SPDX-License-Identifier: Apache-2.0
// The exit codes users script against (docs/cli.md). `trace -- COMMAND` alone returns others: the command's own.
#pragma once

namespace stalltrace::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitFindings = 3;  // only with --exit-code

}  // namespace stalltrace::cli
