// SPDX-License-Identifier: Apache-2.0
// Which calls of a rank have not ended.
#pragma once

#include <cstdint>
#include <optional>

#include "analysis/timeline/timeline.h"

namespace stalltrace::analysis {

/// The number of the oldest of the open calls at the end of a sequence. Where ends are not observable, only one that
/// has not returned counts.
std::optional<int64_t> oldest_open(const CallSequence& sequence);

}  // namespace stalltrace::analysis
