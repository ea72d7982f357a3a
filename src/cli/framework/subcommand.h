// SPDX-License-Identifier: Apache-2.0
// A subcommand: one class, one file, one row in subcommands.cpp. An object is created for each run: flags() binds to
// its members, the parser sets them, then run() is called once. Errors are returned; the subcommand prints only an
// error that has its own exit code (command_start.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/framework/console.h"
#include "cli/framework/flag.h"

namespace stalltrace::cli {

struct SubcommandInfo {
  std::string name;     // "query", "lab run"
  std::string summary;  // one line, for the list of subcommands and the start of the help page
  std::string example;  // one command line that works, without the prompt
  std::string details;  // additional text for the help page; may be empty
};

class Subcommand {
 public:
  virtual ~Subcommand() = default;

  [[nodiscard]] virtual SubcommandInfo info() const = 0;
  /// Bound to this object's members.
  virtual std::vector<Flag> flags() = 0;
  /// Returns the exit code or an error.
  virtual Result<int> run(Console& console) = 0;
};

}  // namespace stalltrace::cli
