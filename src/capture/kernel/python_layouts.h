// SPDX-License-Identifier: Apache-2.0
// The layouts of CPython for the kernel side.
#pragma once

#include <cstdint>

#include "wire/python.h"

namespace stalltrace::capture {

/// Of CPython 3.MINOR, from stacks/python/layout.h; `known` is 0 for other versions.
st_python_layout python_layout(uint32_t minor);

}  // namespace stalltrace::capture
