// SPDX-License-Identifier: Apache-2.0
// Recordings as a source of events for analysis and export. Reads any recording of this or an older schema, finished,
// running or left by a killed tracer, and alters nothing.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "model/source.h"

namespace stalltrace {

Result<std::unique_ptr<EventSource>> open_recording(const std::string& path);

/// Several recordings as one, in one order of time. A node's run that is in two of them is read once; two runs that
/// share an id by chance are told apart by giving the second another.
Result<std::unique_ptr<EventSource>> open_recordings(std::span<const std::string> paths);

}  // namespace stalltrace
