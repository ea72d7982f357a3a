#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the rows of src/stacks/python/layout.cpp from the headers of installed CPythons.

    scripts/python_layouts.py INCLUDE_FOLDER...           (such as /usr/include/python3.11; 3.9 to 3.13)
    CC=aarch64-linux-gnu-gcc scripts/python_layouts.py INCLUDE_FOLDER...

Compiles offsetof expressions to assembly and reads the constants there; nothing is run, so that a cross compiler will do.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

# field of Layout -> its expression, by first and last minor version
FIELDS = [
    ("interpreters_head", [(9, 13, "offsetof(_PyRuntimeState, interpreters.head)")]),
    ("main_thread", [(9, 13, "offsetof(_PyRuntimeState, main_thread)")]),
    ("runtime_gil", [(9, 11, "offsetof(_PyRuntimeState, ceval.gil)")]),
    ("interpreter_next", [(9, 13, "offsetof(PyInterpreterState, next)")]),
    ("interpreter_id", [(9, 13, "offsetof(PyInterpreterState, id)")]),
    ("interpreter_threads", [(9, 10, "offsetof(PyInterpreterState, tstate_head)"), (11, 13, "offsetof(PyInterpreterState, threads.head)")]),
    ("interpreter_gil", [(12, 13, "offsetof(PyInterpreterState, ceval.gil)")]),
    ("interpreter_collecting", [(9, 13, "offsetof(PyInterpreterState, gc.collecting)")]),
    ("gil_holder", [(9, 13, "offsetof(struct _gil_runtime_state, last_holder)")]),
    ("gil_locked", [(9, 13, "offsetof(struct _gil_runtime_state, locked)")]),
    ("gil_size", [(9, 13, "sizeof(struct _gil_runtime_state)")]),
    ("thread_prev", [(9, 13, "offsetof(PyThreadState, prev)")]),
    ("thread_next", [(9, 13, "offsetof(PyThreadState, next)")]),
    ("thread_interpreter", [(9, 13, "offsetof(PyThreadState, interp)")]),
    ("thread_frame", [(9, 10, "offsetof(PyThreadState, frame)"), (13, 13, "offsetof(PyThreadState, current_frame)")]),
    ("thread_cframe", [(11, 12, "offsetof(PyThreadState, cframe)")]),
    ("cframe_frame", [(11, 12, "offsetof(_PyCFrame, current_frame)")]),
    ("thread_pthread", [(9, 13, "offsetof(PyThreadState, thread_id)")]),
    ("thread_tid", [(11, 13, "offsetof(PyThreadState, native_thread_id)")]),
    ("frame_size", [(9, 10, "offsetof(struct _frame, f_localsplus)"), (11, 13, "offsetof(_PyInterpreterFrame, localsplus)")]),
    ("frame_previous", [(9, 10, "offsetof(struct _frame, f_back)"), (11, 13, "offsetof(_PyInterpreterFrame, previous)")]),
    ("frame_code", [(9, 10, "offsetof(struct _frame, f_code)"), (11, 12, "offsetof(_PyInterpreterFrame, f_code)"),
                    (13, 13, "offsetof(_PyInterpreterFrame, f_executable)")]),
    ("frame_instruction", [(9, 10, "offsetof(struct _frame, f_lasti)"), (11, 12, "offsetof(_PyInterpreterFrame, prev_instr)"),
                           (13, 13, "offsetof(_PyInterpreterFrame, instr_ptr)")]),
    ("frame_owner", [(11, 13, "offsetof(_PyInterpreterFrame, owner)")]),
    ("frame_trace", [(9, 9, "offsetof(struct _frame, f_trace)")]),
    ("frame_line", [(9, 10, "offsetof(struct _frame, f_lineno)")]),
    ("frame_object_frame", [(11, 13, "offsetof(PyFrameObject, f_frame)")]),
    ("thread_exception", [(9, 11, "offsetof(PyThreadState, curexc_type)"), (12, 13, "offsetof(PyThreadState, current_exception)")]),
    ("thread_traceback", [(9, 11, "offsetof(PyThreadState, curexc_traceback)")]),
    ("exception_traceback", [(9, 13, "offsetof(PyBaseExceptionObject, traceback)")]),
    ("traceback_next", [(9, 13, "offsetof(PyTracebackObject, tb_next)")]),
    ("traceback_frame", [(9, 13, "offsetof(PyTracebackObject, tb_frame)")]),
    ("traceback_instruction", [(9, 13, "offsetof(PyTracebackObject, tb_lasti)")]),
    ("traceback_line", [(9, 13, "offsetof(PyTracebackObject, tb_lineno)")]),
    ("object_type", [(9, 13, "offsetof(PyObject, ob_type)")]),
    ("type_name", [(9, 13, "offsetof(PyTypeObject, tp_name)")]),
    ("code_name", [(9, 13, "offsetof(PyCodeObject, co_name)")]),
    ("code_qualified_name", [(11, 13, "offsetof(PyCodeObject, co_qualname)")]),
    ("code_file", [(9, 13, "offsetof(PyCodeObject, co_filename)")]),
    ("code_first_line", [(9, 13, "offsetof(PyCodeObject, co_firstlineno)")]),
    ("code_line_table", [(9, 9, "offsetof(PyCodeObject, co_lnotab)"), (10, 13, "offsetof(PyCodeObject, co_linetable)")]),
    ("code_first_traceable", [(11, 13, "offsetof(PyCodeObject, _co_firsttraceable)")]),
    ("code_instructions", [(11, 13, "offsetof(PyCodeObject, co_code_adaptive)")]),
    ("bytes_size", [(9, 13, "offsetof(PyBytesObject, ob_base.ob_size)")]),
    ("bytes_data", [(9, 13, "offsetof(PyBytesObject, ob_sval)")]),
    ("text_length", [(9, 13, "offsetof(PyASCIIObject, length)")]),
    ("text_state", [(9, 13, "offsetof(PyASCIIObject, state)")]),
    ("text_ascii_data", [(9, 13, "sizeof(PyASCIIObject)")]),
    ("text_compact_data", [(9, 13, "sizeof(PyCompactUnicodeObject)")]),
]

HEAD = """
#include <stddef.h>
#include <Python.h>
#include <frameobject.h>
#include <internal/pycore_runtime.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_pystate.h>
#if PY_MINOR_VERSION >= 11
#include <internal/pycore_frame.h>
#include <internal/pycore_code.h>
#endif
void layout(void) {
"""


def layout(include):
    """The headers' minor version, and its fields by name."""
    minor = int(re.search(r"#define PY_MINOR_VERSION\s+(\d+)", (include / "patchlevel.h").read_text())[1])
    lines = [f'__asm__("->{name} %0" : : "i"({expression}));'
             for name, choices in FIELDS for first, last, expression in choices if first <= minor <= last]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "layout.c"
        source.write_text(HEAD + "\n".join(lines) + "\n}\n")
        # Debian has pyconfig.h in a folder per architecture.
        others = [f"-I{path}" for path in include.parent.glob(f"*/{include.name}")]
        text = subprocess.run([os.environ.get("CC", "gcc"), "-DPy_BUILD_CORE", "-DNDEBUG", "-O1", "-w", "-S", f"-I{include}", f"-I{include}/internal",
                               *others, source, "-o", "-"], capture_output=True, text=True, check=True).stdout
    values = {match[1]: int(match[2]) for match in re.finditer(r"->(\w+) [$#]?(-?\d+)", text)}
    return minor, values


def main():
    if len(sys.argv) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    for folder in sys.argv[1:]:
        minor, values = layout(pathlib.Path(folder))
        fields = ", ".join(f".{name} = {values[name]}" for name, _ in FIELDS if name in values)
        print(f"    Layout{{.minor = {minor}, {fields}}},")
    return 0


if __name__ == "__main__":
    sys.exit(main())
