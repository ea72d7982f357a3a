// SPDX-License-Identifier: Apache-2.0
// `stalltrace check`: can this host be traced?
#include "capture/check.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"
#include "cli/trusted_owners.h"

namespace stalltrace::cli {
namespace {

using capture::CheckLine;
using capture::CheckState;

struct StateWords {
  std::string_view mark;  // printed for people
  std::string_view json;
};

StateWords words_of(CheckState state) {
  switch (state) {
    case CheckState::kOk:
      return {"ok", "ok"};
    case CheckState::kFallback:
      return {"fallback", "fallback"};
    case CheckState::kMissing:
      return {"missing", "missing"};
    case CheckState::kRefused:
      return {"REFUSED", "refused"};
  }
  return {};
}

std::string kernel_release() {
  utsname system{};
  return ::uname(&system) == 0 ? system.release : "";
}

class CheckSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "check",
            .summary = "can this host be traced? each refusal with its remedy",
            .example = "sudo stalltrace check",
            .details =
                "Tries everything for real and changes nothing. Exit code 1 if tracing is impossible. "
                "docs/kernels.md lists what is different on older kernels."};
  }
  std::vector<Flag> flags() override {
    return {switch_flag("--json", "print one JSON object, for programs", &json_),
            switch_flag("--programs", "the BPF programs instead: instructions and time of this kernel's verifier",
                        &programs_),
            trust_owner_flag(&trusted_owners_)};
  }
  Result<int> run(Console& console) override { return programs_ ? show_programs(console) : show_host(console); }

 private:
  Result<int> show_host(Console& console) const {
    ST_ASSIGN(const TrustedOwners trusted, parse_trusted_owners(trusted_owners_));
    const std::vector<CheckLine> lines = capture::check_host(trusted);
    const bool possible = std::none_of(lines.begin(), lines.end(),
                                       [](const CheckLine& line) { return line.state == CheckState::kRefused; });
    if (json_) {
      nlohmann::ordered_json rows = nlohmann::ordered_json::array();
      for (const CheckLine& line : lines) {
        rows.push_back({{"key", line.key},
                        {"what", line.what},
                        {"state", words_of(line.state).json},
                        {"since", line.since},
                        {"detail", line.detail},
                        {"remedy", line.remedy}});
      }
      print(console, {{"kernel", kernel_release()}, {"possible", possible}, {"lines", std::move(rows)}});
      return possible ? kExitDone : kExitFailed;
    }
    size_t widest = 0;
    for (const CheckLine& line : lines) {
      widest = std::max(widest, line.what.size());
    }
    for (const CheckLine& line : lines) {
      const std::string since = line.since.empty() ? "" : "Linux " + line.since;
      const std::string text =
          fmt::format("{:<8} {:<{}} {:<10} {}", words_of(line.state).mark, line.what, widest, since, line.detail);
      console.out(text.substr(0, text.find_last_not_of(' ') + 1) + "\n");
      if (!line.remedy.empty()) {
        console.out(fmt::format("{:<8} {:<{}} {:<10} -> {}\n", "", "", widest, "", line.remedy));
      }
    }
    console.out(possible ? "This host can be traced.\n" : "This host can't be traced as things are.\n");
    return possible ? kExitDone : kExitFailed;
  }

  Result<int> show_programs(Console& console) const {
    ST_ASSIGN(const capture::CheckedPrograms checked, capture::check_programs());
    if (json_) {
      nlohmann::ordered_json rows = nlohmann::ordered_json::array();
      for (const capture::ProgramReport& program : checked.programs) {
        rows.push_back({{"program", program.program},
                        {"state", program.loaded ? "ok" : "refused"},
                        {"instructions", program.instructions},
                        {"verified_us", program.verified_us},
                        {"detail", program.detail}});
      }
      print(console, {{"kernel", kernel_release()}, {"load_us", checked.load_us}, {"programs", std::move(rows)}});
      return kExitDone;
    }
    console.out(fmt::format("{:<34} {:>12} {:>10}\n", "program", "instructions", "verified"));
    for (const capture::ProgramReport& program : checked.programs) {
      console.out(program.loaded ? fmt::format("{:<34} {:>12} {:>7.1f} ms\n", program.program, program.instructions,
                                               static_cast<double>(program.verified_us) / 1000)
                                 : fmt::format("{:<34} refused: {}\n", program.program, program.detail));
    }
    console.out(fmt::format("All loaded and attached in {:.0f} ms.\n", static_cast<double>(checked.load_us) / 1000));
    return kExitDone;
  }

  static void print(Console& console, const nlohmann::ordered_json& object) { console.out(document_text(object)); }

  bool json_ = false;
  bool programs_ = false;
  std::vector<std::string> trusted_owners_;
};

}  // namespace

std::unique_ptr<Subcommand> make_check_subcommand() { return std::make_unique<CheckSubcommand>(); }

}  // namespace stalltrace::cli
