// SPDX-License-Identifier: Apache-2.0
// `stalltrace check`: can this host be traced?
#include "capture/check.h"

#include <fmt/format.h>

#include "cli/exit_code.h"
#include "cli/verbs.h"

namespace stalltrace::cli {
namespace {

class CheckVerb final : public Verb {
 public:
  [[nodiscard]] VerbInfo info() const override {
    return {.name = "check",
            .summary = "can this host be traced? each refusal with its remedy",
            .example = "sudo stalltrace check",
            .details = "Tries everything for real and changes nothing. Exit code 1 if tracing is impossible."};
  }
  std::vector<Flag> flags() override { return {}; }
  Result<int> run(Console& console) override {
    bool possible = true;
    for (const capture::CheckLine& line : capture::check_host()) {
      const std::string_view mark = line.ok ? "ok" : line.required ? "REFUSED" : "missing";
      console.out(fmt::format("{:<8} {:<26} {}\n", mark, line.what, line.detail));
      if (!line.ok) {
        console.out(fmt::format("{:<8} {:<26} -> {}\n", "", "", line.remedy));
        possible = possible && !line.required;
      }
    }
    console.out(possible ? "This host can be traced.\n" : "This host can't be traced as things are.\n");
    return possible ? kExitDone : kExitFailed;
  }
};

}  // namespace

std::unique_ptr<Verb> make_check_verb() { return std::make_unique<CheckVerb>(); }

}  // namespace stalltrace::cli
