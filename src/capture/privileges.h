// SPDX-License-Identifier: Apache-2.0
// The capabilities that a trace needs once its programs are loaded.
#pragma once

#include "base/rights/capabilities.h"

namespace stalltrace::capture {

/// What of the kernel decides about them.
struct PrivilegeNeeds {
  bool uprobe_multi = true;         // links for uprobes (6.6); else each probe is a perf event: CAP_SYS_ADMIN
  bool system_call_filters = true;  // else helper processes become another user (base/untrusted/sandbox)
};

Capabilities privileges_of_a_trace(const PrivilegeNeeds& needs);

}  // namespace stalltrace::capture
