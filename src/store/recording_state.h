// SPDX-License-Identifier: Apache-2.0
// Whether a file is a recording that can be read, without reading its rows.
#pragma once

#include <string>

#include "base/result.h"

namespace stalltrace::store {

/// Opens the file as every reader does, and closes it. Errors begin with the path, or with `name`.
Status check_recording(const std::string& path);
Status check_recording(const std::string& path, const std::string& name);

/// True while a tracer is writing it.
bool is_recording_written(const std::string& path);

}  // namespace stalltrace::store
