// SPDX-License-Identifier: Apache-2.0
// Checks of the interfaces that NCCL's sockets will use: the bootstrap always, the data where there is no InfiniBand.
#pragma once

#include <vector>

#include "preflight/host_check.h"
#include "preflight/nccl/settings.h"
#include "preflight/network/interfaces.h"

namespace stalltrace::preflight {

/// The fact of a report that has the family of the addresses, "IPv4" or "IPv6".
inline constexpr const char* kAddressFamily = "address family";

/// Adds to `report` a check for each interface that NCCL chooses among `all` with these settings, its error counters,
/// and differences between several; its facts are for the comparison of hosts. Reads `files.sys`/class/net only; what
/// can't be read is left out, as if the interface had no such value.
void check_interfaces(const Settings& settings, const std::vector<InterfaceAddress>& all, const HostFiles& files,
                      HostReport& report);

}  // namespace stalltrace::preflight
