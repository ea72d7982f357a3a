// SPDX-License-Identifier: Apache-2.0
// Offsets of the fields in CPython's structs, by minor version.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "stacks/memory/memory.h"

namespace stalltrace::stacks {

inline constexpr uint32_t kAbsent = UINT32_MAX;

/// Offsets in bytes; kAbsent where the version has no such field.
struct Layout {
  uint32_t minor = 0;  // 3.MINOR

  // _PyRuntimeState (internal/pycore_runtime.h)
  uint32_t interpreters_head = kAbsent;
  uint32_t main_thread = kAbsent;  // pthread_t
  uint32_t runtime_gil = kAbsent;  // to 3.11: the struct itself
  // PyInterpreterState (internal/pycore_interp.h)
  uint32_t interpreter_next = kAbsent;
  uint32_t interpreter_id = kAbsent;
  uint32_t interpreter_threads = kAbsent;
  uint32_t interpreter_gil = kAbsent;  // from 3.12: a pointer to the struct
  uint32_t interpreter_collecting = kAbsent;
  // struct _gil_runtime_state (internal/pycore_gil.h)
  uint32_t gil_holder = kAbsent;
  uint32_t gil_locked = kAbsent;
  uint32_t gil_size = kAbsent;
  // PyThreadState (cpython/pystate.h)
  uint32_t thread_prev = kAbsent;
  uint32_t thread_next = kAbsent;
  uint32_t thread_interpreter = kAbsent;
  uint32_t thread_frame = kAbsent;    // 3.9, 3.10, 3.13: the innermost frame
  uint32_t thread_cframe = kAbsent;   // 3.11, 3.12: _PyCFrame, which holds it
  uint32_t cframe_frame = kAbsent;    //
  uint32_t thread_pthread = kAbsent;  // pthread_t
  uint32_t thread_tid = kAbsent;      // from 3.11: the kernel's number
  // struct _frame (cpython/frameobject.h), from 3.11 _PyInterpreterFrame (internal/pycore_frame.h)
  uint32_t frame_size = kAbsent;  // without the locals
  uint32_t frame_previous = kAbsent;
  uint32_t frame_code = kAbsent;
  uint32_t frame_instruction = kAbsent;  // to 3.10 a number (int), from 3.11 an address
  uint32_t frame_owner = kAbsent;        // from 3.11: char
  uint32_t frame_trace = kAbsent;        // 3.9: if not null, frame_line is the line
  uint32_t frame_line = kAbsent;         // 3.10: the line, if not 0
  // PyFrameObject (internal/pycore_frame.h), from 3.11: the object of a frame, which points to the frame
  uint32_t frame_object_frame = kAbsent;
  // Exceptions: PyThreadState; PyBaseExceptionObject (cpython/pyerrors.h); PyTracebackObject (cpython/traceback.h)
  uint32_t thread_exception = kAbsent;  // to 3.11 the type of the one that is being raised, from 3.12 the exception
  uint32_t thread_traceback = kAbsent;  // to 3.11
  uint32_t exception_traceback = kAbsent;
  uint32_t traceback_next = kAbsent;         // the frame that was called
  uint32_t traceback_frame = kAbsent;        // the frame's object
  uint32_t traceback_instruction = kAbsent;  // int, bytes from the first instruction
  uint32_t traceback_line = kAbsent;         // int; from 3.12 -1 until it is asked for
  // PyObject, PyTypeObject (object.h, cpython/object.h)
  uint32_t object_type = kAbsent;
  uint32_t type_name = kAbsent;
  // PyCodeObject (cpython/code.h)
  uint32_t code_name = kAbsent;
  uint32_t code_qualified_name = kAbsent;  // from 3.11
  uint32_t code_file = kAbsent;
  uint32_t code_first_line = kAbsent;
  uint32_t code_line_table = kAbsent;
  uint32_t code_first_traceable = kAbsent;  // from 3.11: earlier instructions belong to a call that has not begun
  uint32_t code_instructions = kAbsent;     // from 3.11
  // PyBytesObject (cpython/bytesobject.h), PyASCIIObject, PyCompactUnicodeObject (cpython/unicodeobject.h)
  uint32_t bytes_size = kAbsent;
  uint32_t bytes_data = kAbsent;
  uint32_t text_length = kAbsent;
  uint32_t text_state = kAbsent;
  uint32_t text_ascii_data = kAbsent;
  uint32_t text_compact_data = kAbsent;

  bool free_threaded = false;  // 3.13t: several threads may run Python at once
};

/// The layout of CPython 3.MINOR from its headers, for the usual build (with a GIL, without Py_DEBUG). nullopt for
/// versions other than 3.9 to 3.13.
std::optional<Layout> layout_of(uint32_t minor);

/// The layout in this process: from 3.13 on the interpreter describes itself (_Py_DebugOffsets, at the start of
/// _PyRuntime), which takes precedence over our table. Errors: kUnsupported for an unknown version, kCorrupt for an
/// invalid description.
Result<Layout> layout_in(BoundedMemory& memory, uint64_t runtime, uint32_t minor);

}  // namespace stalltrace::stacks
