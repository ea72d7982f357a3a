// SPDX-License-Identifier: Apache-2.0
#include "stacks/python/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace stalltrace::stacks {
namespace {

// sizeof(struct _gil_runtime_state), which contains two of the C library's mutexes. Of all numbers used here, only this
// one differs between x86-64 and arm64.
#ifdef __aarch64__
constexpr uint32_t kGilBytes = 224;
#else
constexpr uint32_t kGilBytes = 208;
#endif

/// Written by scripts/python_layouts.py from the headers of CPython 3.9.18, 3.10.13, 3.11.2, 3.12.1 and 3.13.0.
constexpr std::array kLayouts{
    Layout{.minor = 9,
           .interpreters_head = 32,
           .main_thread = 72,
           .runtime_gil = 352,
           .interpreter_next = 0,
           .interpreter_id = 24,
           .interpreter_threads = 8,
           .interpreter_collecting = 816,
           .gil_holder = 8,
           .gil_locked = 16,
           .gil_size = kGilBytes,
           .thread_prev = 0,
           .thread_next = 8,
           .thread_interpreter = 16,
           .thread_frame = 24,
           .thread_pthread = 176,
           .frame_size = 360,
           .frame_previous = 24,
           .frame_code = 32,
           .frame_instruction = 104,
           .frame_trace = 80,
           .frame_line = 108,
           .thread_exception = 88,
           .thread_traceback = 104,
           .exception_traceback = 32,
           .traceback_next = 16,
           .traceback_frame = 24,
           .traceback_instruction = 32,
           .traceback_line = 36,
           .object_type = 8,
           .type_name = 24,
           .code_name = 112,
           .code_file = 104,
           .code_first_line = 40,
           .code_line_table = 120,
           .bytes_size = 16,
           .bytes_data = 32,
           .text_length = 16,
           .text_state = 32,
           .text_ascii_data = 48,
           .text_compact_data = 72},
    Layout{.minor = 10,
           .interpreters_head = 32,
           .main_thread = 72,
           .runtime_gil = 352,
           .interpreter_next = 0,
           .interpreter_id = 24,
           .interpreter_threads = 8,
           .interpreter_collecting = 816,
           .gil_holder = 8,
           .gil_locked = 16,
           .gil_size = kGilBytes,
           .thread_prev = 0,
           .thread_next = 8,
           .thread_interpreter = 16,
           .thread_frame = 24,
           .thread_pthread = 176,
           .frame_size = 352,
           .frame_previous = 24,
           .frame_code = 32,
           .frame_instruction = 96,
           .frame_line = 100,
           .thread_exception = 88,
           .thread_traceback = 104,
           .exception_traceback = 32,
           .traceback_next = 16,
           .traceback_frame = 24,
           .traceback_instruction = 32,
           .traceback_line = 36,
           .object_type = 8,
           .type_name = 24,
           .code_name = 112,
           .code_file = 104,
           .code_first_line = 40,
           .code_line_table = 120,
           .bytes_size = 16,
           .bytes_data = 32,
           .text_length = 16,
           .text_state = 32,
           .text_ascii_data = 48,
           .text_compact_data = 72},
    Layout{.minor = 11,
           .interpreters_head = 40,
           .main_thread = 80,
           .runtime_gil = 360,
           .interpreter_next = 0,
           .interpreter_id = 48,
           .interpreter_threads = 16,
           .interpreter_collecting = 848,
           .gil_holder = 8,
           .gil_locked = 16,
           .gil_size = kGilBytes,
           .thread_prev = 0,
           .thread_next = 8,
           .thread_interpreter = 16,
           .thread_cframe = 56,
           .cframe_frame = 8,
           .thread_pthread = 152,
           .thread_tid = 160,
           .frame_size = 72,
           .frame_previous = 48,
           .frame_code = 32,
           .frame_instruction = 56,
           .frame_owner = 69,
           .frame_object_frame = 24,
           .thread_exception = 96,
           .thread_traceback = 112,
           .exception_traceback = 40,
           .traceback_next = 16,
           .traceback_frame = 24,
           .traceback_instruction = 32,
           .traceback_line = 36,
           .object_type = 8,
           .type_name = 24,
           .code_name = 120,
           .code_qualified_name = 128,
           .code_file = 112,
           .code_first_line = 72,
           .code_line_table = 136,
           .code_first_traceable = 168,
           .code_instructions = 184,
           .bytes_size = 16,
           .bytes_data = 32,
           .text_length = 16,
           .text_state = 32,
           .text_ascii_data = 48,
           .text_compact_data = 72},
    Layout{.minor = 12,
           .interpreters_head = 40,
           .main_thread = 64,
           .interpreter_next = 0,
           .interpreter_id = 8,
           .interpreter_threads = 72,
           .interpreter_gil = 384,
           .interpreter_collecting = 312,
           .gil_holder = 8,
           .gil_locked = 16,
           .gil_size = kGilBytes,
           .thread_prev = 0,
           .thread_next = 8,
           .thread_interpreter = 16,
           .thread_cframe = 56,
           .cframe_frame = 0,
           .thread_pthread = 136,
           .thread_tid = 144,
           .frame_size = 72,
           .frame_previous = 8,
           .frame_code = 0,
           .frame_instruction = 56,
           .frame_owner = 70,
           .frame_object_frame = 24,
           .thread_exception = 96,
           .exception_traceback = 40,
           .traceback_next = 16,
           .traceback_frame = 24,
           .traceback_instruction = 32,
           .traceback_line = 36,
           .object_type = 8,
           .type_name = 24,
           .code_name = 120,
           .code_qualified_name = 128,
           .code_file = 112,
           .code_first_line = 68,
           .code_line_table = 136,
           .code_first_traceable = 176,
           .code_instructions = 192,
           .bytes_size = 16,
           .bytes_data = 32,
           .text_length = 16,
           .text_state = 32,
           .text_ascii_data = 40,
           .text_compact_data = 56},
    Layout{.minor = 13,
           .interpreters_head = 632,
           .main_thread = 656,
           .interpreter_next = 7264,
           .interpreter_id = 7272,
           .interpreter_threads = 7344,
           .interpreter_gil = 16,
           .interpreter_collecting = 7600,
           .gil_holder = 8,
           .gil_locked = 16,
           .gil_size = kGilBytes,
           .thread_prev = 0,
           .thread_next = 8,
           .thread_interpreter = 16,
           .thread_frame = 72,
           .thread_pthread = 152,
           .thread_tid = 160,
           .frame_size = 72,
           .frame_previous = 8,
           .frame_code = 0,
           .frame_instruction = 56,
           .frame_owner = 70,
           .frame_object_frame = 24,
           .thread_exception = 112,
           .exception_traceback = 40,
           .traceback_next = 16,
           .traceback_frame = 24,
           .traceback_instruction = 32,
           .traceback_line = 36,
           .object_type = 8,
           .type_name = 24,
           .code_name = 120,
           .code_qualified_name = 128,
           .code_file = 112,
           .code_first_line = 68,
           .code_line_table = 136,
           .code_first_traceable = 184,
           .code_instructions = 200,
           .bytes_size = 16,
           .bytes_data = 32,
           .text_length = 16,
           .text_state = 32,
           .text_ascii_data = 40,
           .text_compact_data = 56},
};

/// The first words of _Py_DebugOffsets (internal/pycore_runtime.h of 3.13), up to the last one used here.
struct DebugOffsets {
  char cookie[8];
  uint64_t version;  // in the format of Py_Version
  uint64_t free_threaded;
  struct {
    uint64_t size, finalizing, interpreters_head;
  } runtime_state;
  struct {
    uint64_t size, id, next, threads_head, gc, imports_modules, sysdict, builtins, ceval_gil, gil_runtime_state,
        gil_runtime_state_enabled, gil_runtime_state_locked, gil_runtime_state_holder;
  } interpreter_state;
  struct {
    uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status;
  } thread_state;
  struct {
    uint64_t size, previous, executable, instr_ptr, localsplus, owner;
  } interpreter_frame;
  struct {
    uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames, localspluskinds,
        co_code_adaptive;
  } code_object;
  struct {
    uint64_t size, ob_type;
  } pyobject;
  struct {
    uint64_t size, tp_name, tp_repr, tp_flags;
  } type_object;
  struct {
    uint64_t size, ob_item, ob_size;
  } tuple_object, list_object;
  struct {
    uint64_t size, ma_keys, ma_values;
  } dict_object;
  struct {
    uint64_t size, ob_fval;
  } float_object;
  struct {
    uint64_t size, lv_tag, ob_digit;
  } long_object;
  struct {
    uint64_t size, ob_size, ob_sval;
  } bytes_object;
  struct {
    uint64_t size, state, length, asciiobject_size;
  } unicode_object;
  struct {
    uint64_t size, collecting;
  } gc;
};

constexpr uint32_t kFirstWithOffsets = 13;
constexpr std::string_view kCookie = "xdebugpy";
/// Larger offsets are invalid. An interpreter's state has some hundred kilobytes.
constexpr uint64_t kLargestOffset = 4U << 20;

std::unexpected<Error> no_description() {
  return fail("its interpreter's description of itself (_Py_DebugOffsets) makes no sense",
              "the process may be starting: try again", ErrorKind::kCorrupt);
}

}  // namespace

std::optional<Layout> layout_of(uint32_t minor) {
  const auto found = std::ranges::find(kLayouts, minor, &Layout::minor);
  return found == kLayouts.end() ? std::nullopt : std::optional(*found);
}

Result<Layout> layout_in(BoundedMemory& memory, uint64_t runtime, uint32_t minor) {
  std::optional<Layout> known = layout_of(minor);
  if (!known) {
    return fail(fmt::format("CPython 3.{} is not a version whose frames can be read here", minor),
                "3.9 to 3.13 are; for others use py-spy dump", ErrorKind::kUnsupported);
  }
  if (minor < kFirstWithOffsets) {
    return *known;
  }
  DebugOffsets offsets{};
  if (!memory.read(runtime, offsets) || std::memcmp(offsets.cookie, kCookie.data(), kCookie.size()) != 0 ||
      offsets.version >> 16 != (0x300U | minor) || offsets.free_threaded > 1) {
    return no_description();
  }
  Layout layout = *known;
  bool sane = true;
  const auto take = [&](uint32_t& field, uint64_t value) {
    sane &= value < kLargestOffset;
    field = static_cast<uint32_t>(value);
  };
  layout.free_threaded = offsets.free_threaded == 1;
  take(layout.interpreters_head, offsets.runtime_state.interpreters_head);
  take(layout.interpreter_next, offsets.interpreter_state.next);
  take(layout.interpreter_id, offsets.interpreter_state.id);
  take(layout.interpreter_threads, offsets.interpreter_state.threads_head);
  take(layout.interpreter_gil, offsets.interpreter_state.ceval_gil);
  take(layout.interpreter_collecting, offsets.interpreter_state.gc + offsets.gc.collecting);
  // These two are given relative to the interpreter's own lock; an interpreter may use another's.
  take(layout.gil_locked,
       offsets.interpreter_state.gil_runtime_state_locked - offsets.interpreter_state.gil_runtime_state);
  take(layout.gil_holder,
       offsets.interpreter_state.gil_runtime_state_holder - offsets.interpreter_state.gil_runtime_state);
  take(layout.thread_prev, offsets.thread_state.prev);
  take(layout.thread_next, offsets.thread_state.next);
  take(layout.thread_interpreter, offsets.thread_state.interp);
  take(layout.thread_frame, offsets.thread_state.current_frame);
  take(layout.thread_pthread, offsets.thread_state.thread_id);
  take(layout.thread_tid, offsets.thread_state.native_thread_id);
  take(layout.frame_previous, offsets.interpreter_frame.previous);
  take(layout.frame_code, offsets.interpreter_frame.executable);
  take(layout.frame_instruction, offsets.interpreter_frame.instr_ptr);
  take(layout.frame_size, offsets.interpreter_frame.localsplus);
  take(layout.frame_owner, offsets.interpreter_frame.owner);
  take(layout.object_type, offsets.pyobject.ob_type);
  take(layout.type_name, offsets.type_object.tp_name);
  take(layout.code_file, offsets.code_object.filename);
  take(layout.code_name, offsets.code_object.name);
  take(layout.code_qualified_name, offsets.code_object.qualname);
  take(layout.code_line_table, offsets.code_object.linetable);
  take(layout.code_first_line, offsets.code_object.firstlineno);
  take(layout.code_instructions, offsets.code_object.co_code_adaptive);
  take(layout.bytes_size, offsets.bytes_object.ob_size);
  take(layout.bytes_data, offsets.bytes_object.ob_sval);
  take(layout.text_state, offsets.unicode_object.state);
  take(layout.text_length, offsets.unicode_object.length);
  take(layout.text_ascii_data, offsets.unicode_object.asciiobject_size);
  // The description lacks the two words of PyCompactUnicodeObject that follow.
  constexpr uint32_t kCompactBytes = 16;
  layout.text_compact_data = layout.text_ascii_data + kCompactBytes;
  constexpr uint32_t kLargestFrame = 4096;
  if (!sane || layout.frame_size > kLargestFrame) {
    return no_description();
  }
  // Fields that the description lacks are taken from the usual build, but only if all other fields match it.
  if (layout.code_instructions != known->code_instructions) {
    layout.code_first_traceable = kAbsent;
  }
  if (layout.interpreters_head != known->interpreters_head) {
    layout.main_thread = kAbsent;
  }
  if (layout.gil_holder != known->gil_holder) {
    layout.gil_size = 0;
  }
  return layout;
}

}  // namespace stalltrace::stacks
