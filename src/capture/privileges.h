// SPDX-License-Identifier: Apache-2.0
// The capabilities that a trace needs once its programs are loaded.
#pragma once

#include "base/rights/capabilities.h"

namespace stalltrace::capture {

/// `uprobe_multi`: the kernel has uprobe-multi links (6.6). Without, each probe is a perf event, which takes
/// CAP_SYS_ADMIN.
Capabilities privileges_of_a_trace(bool uprobe_multi);

}  // namespace stalltrace::capture
