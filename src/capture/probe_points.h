// SPDX-License-Identifier: Apache-2.0
// Where probes go in a file: discover/ finds the offsets, kernel/ attaches there.
#pragma once

#include <cstdint>

namespace stalltrace::capture {

/// A probe point: a row of the call table at a file offset (what uprobes are addressed by).
struct ProbePoint {
  uint64_t offset = 0;  // of the function, or of its second instruction: the caller's state is unchanged
  uint32_t row = 0;
  bool int_handles = false;  // the file's MPI handles are ints, not pointers
};

/// The profiler plugin's marker and its semaphore (plugin/wire/marker.h), as file offsets.
struct MarkerPoint {
  uint64_t function_offset = 0;
  uint64_t semaphore_offset = 0;
};

/// A function by which CPython prints an exception (wire/python.h).
struct PythonPoint {
  uint64_t offset = 0;           // in the file
  uint32_t function = 0;         // enum st_python_function
  uint32_t minor = 0;            // 3.MINOR
  int32_t runtime_distance = 0;  // bytes from the function to _PyRuntime
};

}  // namespace stalltrace::capture
