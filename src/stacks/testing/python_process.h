// SPDX-License-Identifier: Apache-2.0
// CPython processes for tests: the interpreters of this host, and test programs that run in them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/process/subprocess.h"

namespace stalltrace::stacks {

struct Interpreter {
  std::string path;
  uint32_t minor = 0;
};

/// CPython 3.9 to 3.13: python3 and python3.MINOR in PATH, and those of pyenv. Each version once.
const std::vector<Interpreter>& interpreters();

/// A running program of testdata/; it ends with this object.
struct TestProcess {
  Subprocess process;
  std::string file;  // the program's last argument, which it writes when it is ready; already removed
  std::string text;  // its content
};

/// Starts `testdata/NAME` with these arguments and a file as the last one; waits until the file exists. nullopt: it
/// never did.
std::optional<TestProcess> start_test_process(const Interpreter& interpreter, const std::string& name,
                                              std::vector<std::string> arguments = {});

}  // namespace stalltrace::stacks
