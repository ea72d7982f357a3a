// SPDX-License-Identifier: Apache-2.0
// `stalltrace explain`: what stalled, where and why.
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/framework/time_flag.h"
#include "cli/reporting.h"
#include "cli/verbs/verbs.h"
#include "report/inspection.h"
#include "report/report_json.h"

namespace stalltrace::cli {
namespace {

class ExplainVerb final : public Subcommand {
 public:
  [[nodiscard]] VerbInfo info() const override {
    return {.name = "explain",
            .summary = "name the rank, the link and the cause of each stall",
            .example = "stalltrace explain node0.db node1.db node2.db node3.db",
            .details =
                "Give the recordings of all nodes of the job: what no recording shows can't be blamed.\n"
                "NCCL's logs, PyTorch's Flight Recorder dumps and profiler files are read as well (docs/import.md); a "
                "folder stands for all that is in it.\n"
                "The times that a report writes as +1.718s can be given to --from and --to."};
  }
  std::vector<Flag> flags() override {
    return {arguments("FILE", "recordings, logs and dumps of one job, or folders of them", &files_),
            switch_flag("--json", "the report as one JSON object (docs/findings.md)", &json_),
            time_point_flag("--from", "judge only collectives from here on", &window_.from),
            time_point_flag("--to", "judge only collectives before this", &window_.to),
            text_flag("--instance", "ID",
                      "why was, or was not, the instance of this call a stall? ID as query shows it", &instance_),
            switch_flag("--exit-code", "exit with 3 when there are findings, with 1 when the job's health is not known",
                        &exit_code_)};
  }
  Result<int> run(Console& console) override {
    ST_ASSIGN(const Inputs inputs, list_inputs(files_));
    confine_to_reading(inputs.all());
    ST_ASSIGN(const InspectedReport inspected, inspect_inputs(inputs, instance_, window_));
    if (!instance_.empty()) {
      console.out(json_ ? report::inspection_to_json(inspected.inspection)
                        : report::inspection_to_text(inspected.inspection, {.colour = console.colour_out()}));
      return code_of(inspected.report);
    }
    const Report& report = inspected.report;
    if (json_) {
      console.out(report::report_to_json(report));
    } else {
      print_report(console, report);
    }
    return code_of(report);
  }

 private:
  [[nodiscard]] int code_of(const Report& report) const {
    if (!exit_code_) {
      return kExitDone;
    }
    const std::optional<bool> health = report.health();
    return !health ? kExitFailed : *health ? kExitDone : kExitFindings;
  }

  std::vector<std::string> files_;
  TimeWindow window_;
  std::string instance_;
  bool json_ = false;
  bool exit_code_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_explain_verb() { return std::make_unique<ExplainVerb>(); }

}  // namespace stalltrace::cli
