// SPDX-License-Identifier: Apache-2.0
// The NCCL profiler plugin that travels inside this binary, for jobs that stalltrace starts itself. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace stalltrace {

inline constexpr std::string_view kProfilerPluginFile = "libnccl-profiler-stalltrace.so";

/// The library, byte for byte.
std::string_view profiler_plugin();

/// Writes it where NCCL can load it: `folder`/kProfilerPluginFile, mode 0755. Returns that path.
Result<std::string> write_profiler_plugin(const std::string& folder);

}  // namespace stalltrace
