// SPDX-License-Identifier: Apache-2.0
// `stalltrace lab fault`: injects a fault into the running practice cluster.
#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"
#include "lab/cluster/injection/manual.h"

namespace stalltrace::cli {
namespace {

class LabFaultSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "lab fault",
            .summary = "break something in the practice cluster that is up",
            .example = "stalltrace lab fault packet_loss:rank=2,percent=2",
            .details =
                "It lasts until `stalltrace lab fault none` or `lab down`. Prints the commands it amounts to.\n"
                "Faults:\n" +
                lab::fault_help()};
  }
  std::vector<Flag> flags() override {
    return {argument("FAULT", "CAUSE:key=value,... as listed below, or none to undo all", &fault_)};
  }
  Result<int> run(Console& console) override {
    ST_ASSIGN(const lab::FaultSpec spec, lab::parse_fault(fault_));
    if (spec.cause == "none") {
      ST_TRY(lab::clear_faults());
      return kExitDone;
    }
    ST_ASSIGN(const auto commands, lab::apply_fault(spec));
    for (const std::string& command : commands) {
      console.out(command + "\n");
    }
    return kExitDone;
  }

 private:
  std::string fault_;
};

}  // namespace

std::unique_ptr<Subcommand> make_lab_fault_subcommand() { return std::make_unique<LabFaultSubcommand>(); }

}  // namespace stalltrace::cli
