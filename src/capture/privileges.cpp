// SPDX-License-Identifier: Apache-2.0
#include "capture/privileges.h"

#include <linux/capability.h>

namespace stalltrace::capture {

Capabilities privileges_of_a_trace(const PrivilegeNeeds& needs) {
  // Libraries that appear later are probed, and state at tasks and sockets is read.
  const Capabilities tracing =
      capability_bit(CAP_BPF) | capability_bit(CAP_PERFMON) | (needs.uprobe_multi ? 0 : capability_bit(CAP_SYS_ADMIN));
  // Other users' processes: their mappings, the files that they have mapped, their variables, in folders of their own.
  const Capabilities looking =
      capability_bit(CAP_SYS_PTRACE) | capability_bit(CAP_CHECKPOINT_RESTORE) | capability_bit(CAP_DAC_READ_SEARCH);
  // Profiler files of others are taken over and removed, in sticky folders, too; a recording goes to sudo's caller.
  const Capabilities files = capability_bit(CAP_DAC_OVERRIDE) | capability_bit(CAP_FOWNER) | capability_bit(CAP_CHOWN);
  // Helper processes are ended, and get limits of their own.
  const Capabilities helpers = capability_bit(CAP_KILL) | capability_bit(CAP_SYS_RESOURCE);
  const Capabilities become_another_user =
      needs.system_call_filters ? 0 : capability_bit(CAP_SETUID) | capability_bit(CAP_SETGID);
  return tracing | looking | files | helpers | become_another_user;
}

}  // namespace stalltrace::capture
