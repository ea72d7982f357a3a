// SPDX-License-Identifier: Apache-2.0
// `stalltrace version`: the facts that a bug report needs.
#include "base/version.h"

#include <fmt/format.h>

#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"

namespace stalltrace::cli {
namespace {

class VersionSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "version", .summary = "print the version", .example = "stalltrace version", .details = {}};
  }
  std::vector<Flag> flags() override { return {}; }
  Result<int> run(Console& console) override {
    console.out(fmt::format("stalltrace {}\n", program_version()));
    return kExitDone;
  }
};

}  // namespace

std::unique_ptr<Subcommand> make_version_subcommand() { return std::make_unique<VersionSubcommand>(); }

}  // namespace stalltrace::cli
