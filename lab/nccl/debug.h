// SPDX-License-Identifier: Apache-2.0
// The debug log in NCCL's own form, controlled by NCCL_DEBUG (VERSION, WARN, INFO, TRACE), NCCL_DEBUG_SUBSYS (a list of
// names, `^` before it inverts) and NCCL_DEBUG_FILE (%h host, %p pid; standard output when unset). Read once per
// process; any thread may log.
#pragma once

#include <string>

namespace lab::nccl {

enum class Level { kNone = 0, kVersion = 1, kWarn = 2, kInfo = 3, kTrace = 5 };

enum Subsystem : unsigned {
  kInit = 1U << 0,
  kColl = 1U << 1,
  kP2p = 1U << 2,
  kShm = 1U << 3,
  kNet = 1U << 4,
  kEnv = 1U << 7,
  kProxy = 1U << 9,
  kBootstrap = 1U << 12,
  kAll = ~0U,
};

[[gnu::format(printf, 4, 5)]] void warn(const char* file, int line, unsigned subsystems, const char* format, ...);
[[gnu::format(printf, 2, 3)]] void info(unsigned subsystems, const char* format, ...);
[[gnu::format(printf, 1, 2)]] void log_version(const char* format, ...);

/// The logger passed to a plugin: the same log. The interface defines its signature.
[[gnu::format(printf, 5, 6)]] void log_for_plugin(int level, unsigned long subsystems, const char* file, int line,
                                                  const char* format, ...);

/// The text of the last warning, printed or not, for ncclGetLastError.
std::string last_warning();

/// Warnings name the source line that found the error, as NCCL's do.
#define NCCL_WARN(...) ::lab::nccl::warn(__FILE__, __LINE__, ::lab::nccl::kAll, __VA_ARGS__)

}  // namespace lab::nccl
