// SPDX-License-Identifier: Apache-2.0
#include "capture/privileges.h"

#include <fmt/format.h>
#include <linux/capability.h>

namespace stalltrace::capture {

std::vector<KeptPrivilege> kept_privileges(const PrivilegeNeeds& needs) {
  std::vector<KeptPrivilege> kept{
      {capability_bit(CAP_BPF) | capability_bit(CAP_PERFMON),
       "to probe libraries that appear later, and to read state at tasks and sockets"},
      {capability_bit(CAP_SYS_PTRACE) | capability_bit(CAP_CHECKPOINT_RESTORE) | capability_bit(CAP_DAC_READ_SEARCH),
       "to look at other users' processes, their variables and the files that they map"},
      // The files lie in sticky folders, too.
      {capability_bit(CAP_DAC_OVERRIDE) | capability_bit(CAP_FOWNER) | capability_bit(CAP_CHOWN),
       "to take over and remove profiler files of others, and to give a recording to sudo's caller"},
      {capability_bit(CAP_KILL) | capability_bit(CAP_SYS_RESOURCE), "to end and to limit helper processes"}};
  if (!needs.uprobe_multi) {
    kept.push_back({capability_bit(CAP_SYS_ADMIN), "for probes that are perf events: this kernel has no other"});
  }
  if (!needs.system_call_filters) {
    kept.push_back({capability_bit(CAP_SETUID) | capability_bit(CAP_SETGID),
                    "for helper processes to become the user nobody: this kernel has no system call filters"});
  }
  return kept;
}

Capabilities privileges_of_a_trace(const PrivilegeNeeds& needs) {
  Capabilities all = 0;
  for (const KeptPrivilege& one : kept_privileges(needs)) {
    all |= one.set;
  }
  return all;
}

std::string kept_privileges_text(Capabilities held, const PrivilegeNeeds& needs) {
  std::string text;
  for (const KeptPrivilege& one : kept_privileges(needs)) {
    if (const Capabilities kept = held & one.set; kept != 0) {
      text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", capability_names(kept), one.why);
    }
  }
  return text;
}

}  // namespace stalltrace::capture
