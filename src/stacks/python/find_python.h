// SPDX-License-Identifier: Apache-2.0
// Finds the CPython interpreter of a process.
#pragma once

#include <cstdint>
#include <string>

#include "base/process/procfs.h"
#include "base/result.h"

namespace stalltrace::stacks {

struct PythonProgram {
  uint32_t minor = 0;      // 3.MINOR
  std::string version;     // "3.11.2"; "3.10" where only the file's name shows it
  std::string file;        // file with the interpreter, as the process sees it
  uint64_t runtime = 0;    // address of _PyRuntime
  uint64_t code_type = 0;  // address of PyCode_Type; 0 unknown
};

/// Finds the interpreter by the symbol _PyRuntime of libpythonX.Y.so, of the program, or of another mapped file with
/// "python" in its name; or, without symbols, by its section .PyRuntime (from 3.10). The version is Py_Version (from
/// 3.11), else from the file's name. Errors: kNotFound (no such process), kNoPrivilege, kUnsupported (not CPython, or
/// another version).
Result<PythonProgram> find_python(const Procfs& procfs, pid_t pid);

/// Whether a process is probably Python, judged by its file names only: cheap.
bool may_be_python(const Procfs& procfs, pid_t pid);

/// Formats Py_Version: "3.11.2"; "3.13.0rc2" for a pre-release.
std::string version_text(uint32_t py_version);

}  // namespace stalltrace::stacks
