/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The walk over an exception's traceback in the memory of the process that raised it. The memory may hold anything:
 * every loop is bounded, every address may be unreadable, and user space trusts nothing of the result.
 *
 * Plain C over readers of user memory, so that it is tested on any process. The including file defines
 * user_u64(address), which returns a number, and bpf_probe_read_user(into, bytes, address), which returns 0 on success.
 */
#ifndef STALLTRACE_PYTHON_TRACEBACK_H
#define STALLTRACE_PYTHON_TRACEBACK_H

#include "wire/python.h"

#define ST_WALK static inline __attribute__((always_inline))

struct python_error {
  __u64 type; /* address of the type object */
  __u64 traceback;
};

/* The exception that the current thread raises. It holds the interpreter's lock, which thereby leads to its state. */
ST_WALK struct python_error current_python_error(const volatile struct st_python_layout* layout, __u64 runtime) {
  struct python_error error = {};
  const __u64 gil = layout->runtime_gil != ST_PYTHON_NO_FIELD
                        ? runtime + layout->runtime_gil
                        : user_u64(user_u64(runtime + layout->interpreters_head) + layout->interpreter_gil);
  const __u64 thread = user_u64(gil + layout->gil_holder);
  const __u64 exception = thread ? user_u64(thread + layout->thread_exception) : 0;
  if (!exception) {
    return error;
  }
  if (layout->thread_traceback != ST_PYTHON_NO_FIELD) {
    error.type = exception;
    error.traceback = user_u64(thread + layout->thread_traceback);
  } else {
    error.type = user_u64(exception + layout->object_type);
    error.traceback = user_u64(exception + layout->exception_traceback);
  }
  return error;
}

/* Number of bytes that could be read: all, a half, an eighth or none, since an object may be smaller and lie at the end
 * of what is mapped. */
ST_WALK __u16 read_piece(void* into, __u16 bytes, __u64 address) {
  if (!address) {
    return 0;
  }
  if (!bpf_probe_read_user(into, bytes, (const void*)address)) {
    return bytes;
  }
  if (!bpf_probe_read_user(into, bytes / 2, (const void*)address)) {
    return (__u16)(bytes / 2);
  }
  return bpf_probe_read_user(into, bytes / 8, (const void*)address) ? 0 : (__u16)(bytes / 8);
}

/* Stores the frame objects' addresses as the frames' code. Returns the number of frames. */
ST_WALK __u32 walk_traceback(const volatile struct st_python_layout* layout, __u64 traceback,
                             struct st_python_exception* record) {
  __u32 depth = 0;
  for (__u32 i = 0; i < ST_PYTHON_MOST_DEPTH && traceback; i++) {
    struct st_python_traceback one;
    if (bpf_probe_read_user(&one, sizeof(one), (const void*)(traceback + layout->traceback))) {
      break;
    }
    __u32 slot = i < ST_PYTHON_OUTERMOST
                     ? i
                     : ST_PYTHON_OUTERMOST + (i - ST_PYTHON_OUTERMOST) % (ST_PYTHON_FRAMES - ST_PYTHON_OUTERMOST);
    asm volatile("" : "+r"(slot));
    struct st_python_frame* frame = &record->frames[slot & (ST_PYTHON_FRAMES - 1)];
    frame->code = one.frame;
    frame->line = one.line;
    frame->instruction = one.instruction;
    traceback = one.next;
    depth = i + 1;
  }
  return depth;
}

ST_WALK void read_frame(const volatile struct st_python_layout* layout, struct st_python_frame* frame) {
  __u64 owner = frame->code;
  if (layout->frame_object_frame != ST_PYTHON_NO_FIELD) {
    owner = user_u64(owner + layout->frame_object_frame);
  }
  const __u64 code = user_u64(owner + layout->frame_code);
  frame->code = code;
  frame->file = user_u64(code + layout->code_file);
  frame->name = user_u64(code + layout->code_name);
  frame->table = user_u64(code + layout->code_line_table);
  frame->code_bytes = read_piece(frame->code_memory, sizeof(frame->code_memory), code);
  frame->file_bytes = read_piece(frame->file_memory, sizeof(frame->file_memory), frame->file);
  frame->name_bytes = read_piece(frame->name_memory, sizeof(frame->name_memory), frame->name);
  frame->table_bytes = read_piece(frame->table_memory, sizeof(frame->table_memory), frame->table);
}

#endif
