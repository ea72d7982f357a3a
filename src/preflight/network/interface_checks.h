// SPDX-License-Identifier: Apache-2.0
// Checks of the interfaces that NCCL's sockets will use: the bootstrap always, the data where there is no InfiniBand.
#pragma once

#include "preflight/host_check.h"
#include "preflight/nccl/settings.h"
#include "preflight/network/interfaces.h"

namespace stalltrace::preflight {

void check_interfaces(const Settings& settings, const std::vector<InterfaceAddress>& all, const HostFiles& files,
                      HostReport& report);

}  // namespace stalltrace::preflight
