// SPDX-License-Identifier: Apache-2.0
// `stalltrace lab down`: removes the remains of a lab.
#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"
#include "lab/cluster/injection/manual.h"

namespace stalltrace::cli {
namespace {

class LabDownSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "lab down",
            .summary = "remove the practice cluster, also one left by a killed run",
            .example = "stalltrace lab down",
            .details = "Prints what it removed. Recordings stay."};
  }
  std::vector<Flag> flags() override { return {}; }
  Result<int> run(Console& console) override {
    ST_ASSIGN(const auto removed, lab::down());
    for (const std::string& line : removed) {
      console.out(line + "\n");
    }
    return kExitDone;
  }
};

}  // namespace

std::unique_ptr<Subcommand> make_lab_down_subcommand() { return std::make_unique<LabDownSubcommand>(); }

}  // namespace stalltrace::cli
