// SPDX-License-Identifier: Apache-2.0
// One state of a recording as a file of its own, also of one that is being written.
#pragma once

#include <string>

#include "base/handle.h"
#include "base/result.h"

namespace stalltrace::store {

/// Opens one state of the recording at `path` for reading: the file itself where it is complete, else a copy of its
/// last committed state. The copy is made in `folder`, where it has no name when this returns, and is gone with the
/// descriptor. A tracer that writes the recording does not wait for it. Errors: no recording, no room in the folder.
Result<UniqueFd> open_copy(const std::string& path, const std::string& folder);

}  // namespace stalltrace::store
