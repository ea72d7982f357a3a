// SPDX-License-Identifier: Apache-2.0
// `stalltrace lab up`: starts the practice cluster for manual use.
#include <fmt/format.h>

#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"
#include "lab/cluster/injection/manual.h"

namespace stalltrace::cli {
namespace {

class LabUpSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "lab up",
            .summary = "make a practice cluster to break by hand",
            .example = "stalltrace lab up --ranks 4",
            .details =
                "Prints one line per virtual node: name, network "
                "namespace, address, folder of the workload.\n"
                "`ip netns exec stalltrace-node0 COMMAND` runs in one. "
                "Needs root. `stalltrace lab down` removes all."};
  }
  std::vector<Flag> flags() override { return {integer_flag("--ranks", "N", "virtual nodes", 2, 64, &ranks_)}; }
  Result<int> run(Console& console) override {
    ST_ASSIGN(const auto nodes, lab::up({.ranks = static_cast<int>(ranks_)}));
    for (const lab::NodeAddress& node : nodes) {
      console.out(fmt::format("{}  {}  {}  {}\n", node.name, node.netns, node.address, node.folder));
    }
    return kExitDone;
  }

 private:
  int64_t ranks_ = 4;
};

}  // namespace

std::unique_ptr<Subcommand> make_lab_up_subcommand() { return std::make_unique<LabUpSubcommand>(); }

}  // namespace stalltrace::cli
