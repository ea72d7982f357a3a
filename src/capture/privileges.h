// SPDX-License-Identifier: Apache-2.0
// The capabilities that a trace needs once its programs are loaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/rights/capabilities.h"

namespace stalltrace::capture {

/// What of the kernel decides about them.
struct PrivilegeNeeds {
  bool uprobe_multi = true;         // links for uprobes (6.6); else each probe is a perf event: CAP_SYS_ADMIN
  bool system_call_filters = true;  // else helper processes become another user (base/untrusted/sandbox)
};

/// Capabilities that a trace keeps for one reason.
struct KeptPrivilege {
  Capabilities set = 0;
  std::string_view why;  // for users: what takes them
};

/// No capability is in two of them.
std::vector<KeptPrivilege> kept_privileges(const PrivilegeNeeds& needs);

/// All of them.
Capabilities privileges_of_a_trace(const PrivilegeNeeds& needs);

/// Those of `held` that are kept, with the reasons: "CAP_PERFMON, CAP_BPF (probes ...); CAP_KILL (...)".
std::string kept_privileges_text(Capabilities held, const PrivilegeNeeds& needs);

}  // namespace stalltrace::capture
