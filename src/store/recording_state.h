// SPDX-License-Identifier: Apache-2.0
// Whether a file is a recording that can be read, without reading its rows.
#pragma once

#include <string>

#include "base/result.h"

namespace stalltrace::store {

/// Opens the file as every reader does, and closes it.
Status check_recording(const std::string& path);

/// True while a tracer is writing it.
bool is_recording_written(const std::string& path);

}  // namespace stalltrace::store
