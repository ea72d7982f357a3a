// SPDX-License-Identifier: Apache-2.0
// How much memory this process could have at most.
#pragma once

#include <cstdint>
#include <string>

namespace stalltrace {

/// This host's memory, or the least limit of the cgroups that this process is in (version 2, or 1), in bytes. `root`
/// stands for the root folder, so that tests can fake a host.
uint64_t memory_limit(const std::string& root = "");

}  // namespace stalltrace
