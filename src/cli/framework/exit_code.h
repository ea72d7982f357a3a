// SPDX-License-Identifier: Apache-2.0
// The exit codes that scripts rely on (docs/cli.md). `run` and `trace -- COMMAND` return the command's own.
#pragma once

namespace stalltrace::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitFindings = 3;         // only with --exit-code
inline constexpr int kExitPreflight = 4;        // preflight: a check failed
inline constexpr int kExitNotExecutable = 126;  // of run and trace -- COMMAND, like env, nohup and timeout
inline constexpr int kExitNoCommand = 127;      // likewise

}  // namespace stalltrace::cli
