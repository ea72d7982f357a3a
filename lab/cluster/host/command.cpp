// SPDX-License-Identifier: Apache-2.0
#include "base/process/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/text.h"
#include "lab/cluster/host/command.h"

namespace stalltrace::lab {
namespace {

constexpr std::chrono::seconds kLimit{20};

struct Tool {
  std::string_view program;
  std::string_view package;
};
constexpr std::array kTools = {Tool{"ip", "iproute2"}, Tool{"nft", "nftables"}};

}  // namespace

Result<std::string> run_command(const std::vector<std::string>& argv) {
  SpawnOptions options;
  options.argv = argv;
  options.stdin_path = "/dev/null";
  options.own_process_group = true;  // Ctrl-C must not interrupt a tool half-way
  options.parent_death_signal = SIGKILL;
  ST_ASSIGN(CommandOutput output, run_and_capture(options, kLimit));
  if (!output.status.success()) {
    const std::string_view reported = trim(split(trim(output.err), '\n').front());
    return fail(fmt::format("{}: {}", format_command(argv), reported.empty() ? format_exit(output.status) : reported));
  }
  return std::move(output.out);
}

Status check_privilege_and_tools() {
  if (::geteuid() != 0) {
    return fail("the practice cluster needs root: it makes network namespaces", "run it with sudo",
                ErrorKind::kNoPrivilege);
  }
  for (const Tool& tool : kTools) {
    if (!find_program(tool.program)) {
      return fail(fmt::format("the practice cluster needs the program '{}'", tool.program),
                  fmt::format("install the package {}", tool.package), ErrorKind::kUnsupported);
    }
  }
  return {};
}

}  // namespace stalltrace::lab
