// SPDX-License-Identifier: Apache-2.0
// All checks of this host, and the comparison of several hosts' reports.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "preflight/host_check.h"

namespace stalltrace::preflight {

/// What this process was started as. A server has neither the limits nor the CPUs of a job.
enum class StartedAs : uint8_t { kJob, kServer };

/// `environment`: that of the job's processes. Takes milliseconds. All but the settings is of this process: its network
/// namespace, and, unless it is a server, limits and CPUs. Errors: the interfaces can't be listed.
Result<HostReport> check_this_host(const Environment& environment, const HostFiles& files = {},
                                   StartedAs started = StartedAs::kJob);

/// What failed on a host, its name before the subject, and a check for each fact that is not the same on all.
std::vector<HostCheck> compare_hosts(std::span<const HostReport> hosts);

}  // namespace stalltrace::preflight
