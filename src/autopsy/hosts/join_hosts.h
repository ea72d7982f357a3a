// SPDX-License-Identifier: Apache-2.0
// The evidence of several hosts as if it were of one: what judge() takes. Pure.
#pragma once

#include <string>
#include <vector>

#include "autopsy/hosts/host_result.h"
#include "autopsy/judge/judge.h"
#include "base/result.h"

namespace stalltrace::autopsy {

struct JoinedHosts {
  std::vector<Snapshot> snapshots;  // the first and the last, of all ranks
  Context context;
  std::vector<std::string> notes;  // limits of joining
};

/// At least one host. Ranks of different hosts belong to one job if their launcher gave it one name, no two have one
/// number, and they agree on WORLD_SIZE; else they are judged host by host, under a name with the host's. Errors: two
/// files of one host, files that are too far apart in time (kMostApartNs).
Result<JoinedHosts> join_hosts(std::vector<HostResult> hosts);

}  // namespace stalltrace::autopsy
