/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Exceptions of CPython threads that nothing caught, with the memory that names the frames of their tracebacks: what a
 * process leaves behind when it ends by one is gone before another process could read it. */
#ifndef STALLTRACE_WIRE_PYTHON_H
#define STALLTRACE_WIRE_PYTHON_H

#include "wire/header.h"

#define ST_PYTHON_VERSIONS 16     /* layouts, by the minor version of CPython 3; a power of two */
#define ST_PYTHON_MOST_DEPTH 1100 /* frames walked: the usual limit of recursion is 1000 */
#define ST_PYTHON_FRAMES 16       /* frames kept: the outermost ones, and the innermost */
#define ST_PYTHON_OUTERMOST 4
#define ST_PYTHON_TYPE_BYTES 96
#define ST_PYTHON_CODE_BYTES 208
#define ST_PYTHON_TEXT_BYTES 256
#define ST_PYTHON_TABLE_BYTES 2048
#define ST_PYTHON_NO_FIELD 0xffffffffU

/* What a probed function knows of the exception. */
enum st_python_function {
  ST_PYTHON_PRINTS = 0, /* PyErr_PrintEx: it is the thread's current one */
  ST_PYTHON_DISPLAYS,   /* _PyErr_Display(file, type, exception, traceback) */
};

/* An attach cookie: an enum st_python_function, the minor version << ST_PYTHON_VERSION_SHIFT, and from
 * ST_PYTHON_RUNTIME_SHIFT on the distance of _PyRuntime from the function, a signed number of 32 bits. */
#define ST_PYTHON_VERSION_SHIFT 8
#define ST_PYTHON_RUNTIME_SHIFT 32

/* Offsets in bytes; ST_PYTHON_NO_FIELD where the version has no such field. As in src/stacks/python/layout.h. */
struct st_python_layout {
  __u32 known; /* 0: no such version */
  __u32 interpreters_head;
  __u32 runtime_gil;
  __u32 interpreter_gil;
  __u32 gil_holder;
  __u32 thread_exception;
  __u32 thread_traceback;
  __u32 exception_traceback;
  __u32 traceback; /* of a struct st_python_traceback */
  __u32 frame_object_frame;
  __u32 frame_code;
  __u32 object_type;
  __u32 type_name;
  __u32 code_file;
  __u32 code_name;
  __u32 code_line_table;
};

/* A part of PyTracebackObject (cpython/traceback.h), the same in all versions. */
struct st_python_traceback {
  __u64 next;
  __u64 frame; /* the frame's object */
  __s32 instruction;
  __s32 line;
};

/* A frame's code object, and the objects that it points to, each as far as it could be read, from its
 * beginning. */
struct st_python_frame {
  __u64 code;
  __u64 file;
  __u64 name;
  __u64 table;
  __s32 line; /* -1: only `instruction` says it */
  __s32 instruction;
  __u16 code_bytes;
  __u16 file_bytes;
  __u16 name_bytes;
  __u16 table_bytes;
  __u8 code_memory[ST_PYTHON_CODE_BYTES];
  __u8 file_memory[ST_PYTHON_TEXT_BYTES];
  __u8 name_memory[ST_PYTHON_TEXT_BYTES];
  __u8 table_memory[ST_PYTHON_TABLE_BYTES];
};

struct st_python_exception {
  struct st_header header;
  __u64 traceback; /* its address; 0: none */
  __u32 depth;     /* frames of the traceback, up to ST_PYTHON_MOST_DEPTH */
  __u16 minor;     /* version 3.MINOR */
  __u16 function;  /* enum st_python_function */
  char type[ST_PYTHON_TYPE_BYTES];
  /* The i-th frame from the outermost is in [i], from ST_PYTHON_OUTERMOST on by turns in the others. */
  struct st_python_frame frames[ST_PYTHON_FRAMES];
};

ST_STATIC_ASSERT(sizeof(struct st_python_layout) == 64, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_python_traceback) == 24, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_python_frame) == 2816, "wire layout");
ST_STATIC_ASSERT(sizeof(struct st_python_exception) == 136 + 2816 * ST_PYTHON_FRAMES, "wire layout");

#endif
