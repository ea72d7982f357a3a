// SPDX-License-Identifier: Apache-2.0
#include "stacks/testing/python_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/process/command.h"
#include "base/text.h"
#include "tests/support/source_tree.h"

namespace stalltrace::stacks {
namespace {

std::vector<Interpreter> find_interpreters() {
  std::vector<std::string> paths;
  for (const char* name : {"python3", "python3.9", "python3.10", "python3.11", "python3.12", "python3.13"}) {
    if (const auto path = find_program(name)) {
      paths.push_back(*path);
    }
  }
  const char* home = std::getenv("HOME");
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(home ? home : "") + "/.pyenv/versions", none)) {
    paths.push_back((entry.path() / "bin/python3").string());
  }
  std::vector<Interpreter> found;
  for (const std::string& path : paths) {
    const auto output = run_and_capture(
        {.argv = {path, "-c", "import sys, os; print(*sys.version_info[:2], os.path.realpath(sys.executable))"}},
        std::chrono::seconds(20));
    const std::string answer = output && output->status.success() ? std::string(trim(output->out)) : "";
    const auto words = split(answer, ' ');
    const auto minor = words.size() == 3 && words[0] == "3" ? parse_integer(words[1]).value_or(0) : 0;
    // pyenv puts scripts into PATH; the interpreter is what they start.
    const bool known = std::ranges::any_of(found, [&](const Interpreter& other) { return other.path == words.back(); });
    if (minor >= 9 && minor <= 13 && !known) {
      found.push_back({std::string(words[2]), static_cast<uint32_t>(minor)});
    }
  }
  return found;
}

}  // namespace

const std::vector<Interpreter>& interpreters() {
  static const std::vector<Interpreter> found = find_interpreters();
  return found;
}

std::optional<TestProcess> start_test_process(const Interpreter& interpreter, const std::string& name,
                                              std::vector<std::string> arguments) {
  static int number = 0;
  const std::string file =
      testing::TempDir() + "stacks_test_" + std::to_string(::getpid()) + "_" + std::to_string(number++);
  SpawnOptions options{.argv = {interpreter.path, source_path("src/stacks/testdata/" + name)}};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.argv.push_back(file);
  options.parent_death_signal = SIGKILL;
  auto process = Subprocess::spawn(options);
  for (int i = 0; process && i < 3000; ++i) {
    if (auto text = read_file(file)) {
      ::unlink(file.c_str());
      return TestProcess{std::move(*process), file, std::move(*text)};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::nullopt;
}

}  // namespace stalltrace::stacks
