// SPDX-License-Identifier: Apache-2.0
// `stalltrace lab down`: removes whatever a lab left.
#include "cli/exit_code.h"
#include "cli/verbs.h"
#include "lab/cluster/manual.h"

namespace stalltrace::cli {
namespace {

class LabDownVerb final : public Verb {
 public:
  [[nodiscard]] VerbInfo info() const override {
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

std::unique_ptr<Verb> make_lab_down_verb() { return std::make_unique<LabDownVerb>(); }

}  // namespace stalltrace::cli
