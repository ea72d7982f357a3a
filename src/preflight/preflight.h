// SPDX-License-Identifier: Apache-2.0
// All checks of this host, and the comparison of several hosts' reports.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/process/procfs.h"
#include "base/result.h"
#include "preflight/host_check.h"

namespace stalltrace::preflight {

/// `environment`: that of the job's processes. Takes milliseconds; reads this process's network namespace.
/// Errors: the interfaces can't be listed.
Result<HostReport> check_this_host(const Environment& environment, const HostFiles& files = {});

/// One check for each fact that is not the same on all hosts.
std::vector<HostCheck> compare_hosts(std::span<const HostReport> hosts);

}  // namespace stalltrace::preflight
