// SPDX-License-Identifier: Apache-2.0
// What a node answers to POST /v1/autopsy, read. It is untrusted.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "autopsy/hosts/host_result.h"
#include "base/result.h"

namespace stalltrace::cli {

/// Of one answer: the evidence, and the empty lines before it.
inline constexpr size_t kMostAnswerBytes = autopsy::kLargestResult + 4096;

/// Nullopt: no job runs there. Errors: what the node says is wrong, or (kCorrupt) it says nothing that is understood.
Result<std::optional<autopsy::HostResult>> read_node_answer(std::string_view body);

}  // namespace stalltrace::cli
