// SPDX-License-Identifier: Apache-2.0
#include "capture/kernel/python_layouts.h"

#include <cstddef>

#include "stacks/python/layout.h"

namespace stalltrace::capture {

st_python_layout python_layout(uint32_t minor) {
  static_assert(stacks::kAbsent == ST_PYTHON_NO_FIELD);
  const auto layout = stacks::layout_of(minor);
  const auto follows = [&](uint32_t field, size_t bytes) { return field == layout->traceback_next + bytes; };
  if (!layout || !follows(layout->traceback_frame, offsetof(st_python_traceback, frame)) ||
      !follows(layout->traceback_instruction, offsetof(st_python_traceback, instruction)) ||
      !follows(layout->traceback_line, offsetof(st_python_traceback, line))) {
    return {};
  }
  const bool qualified = layout->code_qualified_name != stacks::kAbsent;
  return {.known = 1,
          .interpreters_head = layout->interpreters_head,
          .runtime_gil = layout->runtime_gil,
          .interpreter_gil = layout->interpreter_gil,
          .gil_holder = layout->gil_holder,
          .thread_exception = layout->thread_exception,
          .thread_traceback = layout->thread_traceback,
          .exception_traceback = layout->exception_traceback,
          .traceback = layout->traceback_next,
          .frame_object_frame = layout->frame_object_frame,
          .frame_code = layout->frame_code,
          .object_type = layout->object_type,
          .type_name = layout->type_name,
          .code_file = layout->code_file,
          .code_name = qualified ? layout->code_qualified_name : layout->code_name,
          .code_line_table = layout->code_line_table};
}

}  // namespace stalltrace::capture
