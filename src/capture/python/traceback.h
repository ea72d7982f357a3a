// SPDX-License-Identifier: Apache-2.0
// What the kernel side sent of an exception (wire/python.h) → names. The record holds memory of a process that may be
// hostile: no pointer, length or text is trusted. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/python_frames.h"
#include "wire/python.h"

namespace stalltrace::capture {

/// The kept frames of the traceback, innermost first; fewer where some could not be read.
std::vector<PythonFrame> frames_of(const st_python_exception& record);

/// The name of the exception's type, printable; "?" where it could not be read.
std::string type_of(const st_python_exception& record);

}  // namespace stalltrace::capture
