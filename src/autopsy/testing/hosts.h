// SPDX-License-Identifier: Apache-2.0
// The snapshots of a test's job as if its ranks were on several hosts, each of which was looked at alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "autopsy/hosts/host_result.h"
#include "autopsy/testing/snapshots.h"

namespace stalltrace::autopsy::testing {

/// Ranks `first` to `last` of the job, on host `node`, of file "NODE.json".
HostResult host_of(JobSnapshots& job, const std::string& node, int first, int last);

/// The file, as far as it is read.
nlohmann::ordered_json file_of(const HostResult& host);

}  // namespace stalltrace::autopsy::testing
