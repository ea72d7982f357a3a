// SPDX-License-Identifier: Apache-2.0
// Finds the CPython interpreter of a process.
#pragma once

#include <cstdint>
#include <string>

#include "base/process/procfs.h"
#include "base/result.h"

namespace stalltrace::stacks {

struct PythonProgram {
  uint32_t minor = 0;      // of 3.MINOR
  std::string version;     // "3.11.2"; "3.10" where only the file's name says it
  std::string file;        // that has the interpreter, as the process sees it
  uint64_t runtime = 0;    // address of _PyRuntime
  uint64_t code_type = 0;  // address of PyCode_Type; 0: not known
};

/// By the symbol _PyRuntime of libpythonX.Y.so, of the program, or of another mapped file with "python" in its name,
/// or, where it has no symbols, its section .PyRuntime (from 3.10). The version is Py_Version (from 3.11), else that of
/// the file's name. Errors: kNotFound (no such process), kNoPrivilege, kUnsupported (not CPython, or another version).
Result<PythonProgram> find_python(const Procfs& procfs, pid_t pid);

/// Whether a process is probably Python, by the names of its files alone: cheap.
bool may_be_python(const Procfs& procfs, pid_t pid);

/// "3.11.2" of Py_Version; "3.13.0rc2" for a version before its release.
std::string version_text(uint32_t py_version);

}  // namespace stalltrace::stacks
