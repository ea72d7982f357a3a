// SPDX-License-Identifier: Apache-2.0
#include "stacks/python/find_python.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/elf/elf_file.h"
#include "base/text.h"
#include "stacks/memory/memory.h"

namespace stalltrace::stacks {
namespace {

constexpr std::array<std::string_view, 3> kSymbols{"_PyRuntime", "Py_Version", "PyCode_Type"};

/// 11 of "libpython3.11.so.1.0", "python3.11", "/usr/lib/python3.11/lib-dynload/x.so".
std::optional<uint32_t> minor_in(std::string_view text) {
  constexpr std::string_view kName = "python3.";
  for (size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
    std::string_view digits = text.substr(at + kName.size());
    digits = digits.substr(0, std::min<size_t>(digits.find_first_not_of("0123456789"), 2));
    if (const auto minor = parse_integer(digits); minor && *minor > 0) {
      return static_cast<uint32_t>(*minor);
    }
  }
  return std::nullopt;
}

/// Files that may contain the interpreter, most likely first: a library, the program itself, any other.
std::vector<MappedFile> candidates(const std::vector<MappedFile>& mappings, const std::string& executable) {
  const auto order = [&](const MappedFile& file) {
    return base_name(file.path).starts_with("libpython") ? 0 : file.path == executable ? 1 : 2;
  };
  std::vector<MappedFile> files;
  std::ranges::copy_if(mappings, std::back_inserter(files), [&](const MappedFile& file) {
    const std::string_view name = base_name(file.path);
    return order(file) < 2 || name.find("python") != std::string_view::npos;
  });
  std::ranges::stable_sort(files, {}, order);
  constexpr size_t kMostFiles = 16;
  files.resize(std::min(files.size(), kMostFiles));
  return files;
}

Result<std::vector<MappedFile>> mappings_of(const Procfs& procfs, pid_t pid) {
  if (!procfs.exists(pid)) {
    return fail(fmt::format("there is no process {}", pid), "list them with ps -e", ErrorKind::kNotFound);
  }
  auto mappings = procfs.executable_mappings(pid);
  if (!mappings) {
    return fail(fmt::format("process {} can't be looked into: {}", pid, mappings.error().what),
                "run as root, or as its user; another user's process takes CAP_SYS_PTRACE", ErrorKind::kNoPrivilege);
  }
  return mappings;
}

std::unexpected<Error> not_cpython(const Procfs& procfs, pid_t pid, const std::vector<MappedFile>& mappings) {
  const auto maps = [&](std::string_view name) {
    return std::ranges::any_of(
        mappings, [&](const MappedFile& file) { return base_name(file.path).find(name) != std::string_view::npos; });
  };
  const std::string executable = procfs.executable(pid);  // a kernel thread has none
  const std::string name =
      printable(executable.empty() ? procfs.thread_name(pid, pid) : std::string(base_name(executable)));
  if (maps("pypy") || maps("python2")) {
    return fail(fmt::format("process {} ({}) is {}", pid, name, maps("pypy") ? "PyPy, not CPython" : "Python 2"),
                "only the frames of CPython 3.9 to 3.13 can be read", ErrorKind::kUnsupported);
  }
  return fail(fmt::format("process {} ({}) is not Python: no file that it maps has a CPython interpreter", pid, name),
              fmt::format("give the number of a Python process; for native stacks use gdb -p {}", pid),
              ErrorKind::kUnsupported);
}

/// Py_Version in the process's memory; 0 where it can't be read.
uint32_t version_in(const Procfs& procfs, pid_t pid, uint64_t address) {
  uint64_t version = 0;
  auto memory = ProcessMemory::open(procfs, pid);
  const bool read = memory && memory->read(address, std::as_writable_bytes(std::span(&version, 1)));
  return read && version < UINT32_MAX ? static_cast<uint32_t>(version) : 0;
}

}  // namespace

std::string version_text(uint32_t py_version) {
  const uint32_t level = py_version >> 4U & 15U;
  const std::string release =
      fmt::format("{}.{}.{}", py_version >> 24U, py_version >> 16U & 255U, py_version >> 8U & 255U);
  return level == 15 ? release
                     : fmt::format("{}{}{}", release,
                                   level == 10   ? "a"
                                   : level == 11 ? "b"
                                                 : "rc",
                                   py_version & 15U);
}

bool may_be_python(const Procfs& procfs, pid_t pid) {
  if (base_name(procfs.executable(pid)).starts_with("python")) {
    return true;
  }
  const auto mappings = procfs.executable_mappings(pid);
  return mappings && std::ranges::any_of(*mappings, [](const MappedFile& file) {
           return base_name(file.path).starts_with("libpython");
         });
}

Result<PythonProgram> find_python(const Procfs& procfs, pid_t pid) {
  ST_ASSIGN(const std::vector<MappedFile> mappings, mappings_of(procfs, pid));
  for (const MappedFile& file : candidates(mappings, procfs.executable(pid))) {
    const UniqueFd fd = procfs.open_mapped(pid, file);
    const auto elf = fd ? ElfFile::open(fd.get()) : std::nullopt;
    const auto bias = elf ? elf->load_bias(file.start, file.end, file.offset) : std::nullopt;
    if (!bias) {
      continue;
    }
    const auto values = elf->symbol_values(kSymbols);
    const auto runtime = values[0] ? values[0] : elf->section_address(".PyRuntime");
    if (!runtime) {
      continue;
    }
    PythonProgram program{.file = file.path, .runtime = *bias + *runtime};
    program.code_type = values[2] ? *bias + *values[2] : 0;
    const uint32_t version = values[1] ? version_in(procfs, pid, *bias + *values[1]) : 0;
    if (version >> 24U == 3) {
      program.minor = version >> 16U & 255U;
      program.version = version_text(version);
      return program;
    }
    auto minor = minor_in(base_name(file.path));
    for (size_t i = 0; i < mappings.size() && !minor; ++i) {
      minor = minor_in(mappings[i].path);
    }
    if (!minor) {
      return fail(fmt::format("process {} is Python of a version that its files don't show", pid), "use py-spy dump",
                  ErrorKind::kUnsupported);
    }
    program.minor = *minor;
    program.version = fmt::format("3.{}", *minor);
    return program;
  }
  return not_cpython(procfs, pid, mappings);
}

}  // namespace stalltrace::stacks
