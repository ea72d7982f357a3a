// SPDX-License-Identifier: Apache-2.0
// Checks of NCCL's settings against its documentation.
#pragma once

#include "preflight/host_check.h"
#include "preflight/nccl/settings.h"

namespace stalltrace::preflight {

/// What needs no knowledge of the host: unknown names, wrong values, combinations. Each setting is a fact of the
/// report, except those that may differ between hosts.
void check_settings(const Settings& settings, HostReport& report);

}  // namespace stalltrace::preflight
