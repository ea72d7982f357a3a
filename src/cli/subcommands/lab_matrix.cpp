// SPDX-License-Identifier: Apache-2.0
// `stalltrace lab matrix`: measures how often the finding is right, with many practice runs drawn from a seed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/causes/cause.h"
#include "analysis/explain.h"
#include "base/file.h"
#include "base/files/own_folder.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"
#include "lab/cluster/campaign/campaign.h"
#include "lab/cluster/campaign/shift/shift_campaign.h"
#include "lab/cluster/campaign/table.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/simulated/scored_job.h"
#include "lab/cluster/workload.h"
#include "serve/http/tls.h"
#include "store/read/reader.h"

namespace stalltrace::cli {
namespace {

/// "late_rank 80 ms: right (late_rank)", "... wrong (late_rank, packet_loss)"
std::string outcome_text(const lab::DrawResult& result) {
  std::string reported;
  for (const lab::FaultScore& fault : result.score.faults) {
    reported += (reported.empty() ? "" : ", ") + fault.reported;
  }
  for (const std::string& cause : result.score.false_causes) {
    reported += (reported.empty() ? "false " : ", false ") + cause;
  }
  for (const std::string& cause : result.score.live_false) {
    reported += (reported.empty() ? "false live " : ", false live ") + cause;
  }
  if (!result.problem.empty()) {
    reported = result.problem;
  }
  return fmt::format("{}{}", to_text(result.score.verdict), reported.empty() ? "" : " (" + reported + ")");
}

std::string setting_list() {
  std::string list;
  for (const lab::DrawSetting& setting : lab::draw_settings()) {
    list += fmt::format("  {:<12} {}\n", to_text(setting.kind), setting.name);
  }
  return list;
}

/// "0.1.0, sha256:..." of the program that runs, as sha256sum prints it: figures of a campaign are that program's.
Result<std::string> program_id() {
  constexpr size_t kLargestProgram = 1U << 30U;
  ST_ASSIGN(const std::string program, read_file("/proc/self/exe", kLargestProgram));
  serve::prepare_tls();
  return fmt::format("{}, sha256:{}", program_version(), serve::fingerprint_of(program));
}

lab::CostGate gate_of(std::string_view cause) {
  const std::optional<Cause> known = cause_from_text(cause);
  const analysis::Gate gate = known ? analysis::rule_of(*known).gate : analysis::Gate{};
  return {gate.single_ns, gate.total_ns, gate.share, analysis::kShareSpanNs};
}

/// What the shift test asks of the analysis.
Result<lab::Judgement> judgement_of(EventSource& source) {
  ST_ASSIGN(const ExplainResult result, explain(source));
  lab::Judgement judgement{.range = result.report.range};
  for (const analysis::Decision& decision : result.decisions) {
    const analysis::Hypothesis& chosen = decision.hypotheses[decision.chosen];
    judgement.stalls.push_back({chosen.dismissed ? Cause::kUnknown : chosen.cause, decision.stall.window});
  }
  for (const Finding& finding : result.report.findings) {
    if (finding.severity != Severity::kWaiting) {
      judgement.findings.push_back(finding.cause);
    }
  }
  return judgement;
}

/// "2 of 14 stalls explained falsely (packet_loss 2)", "..., apart 3 of 5"
std::string shift_text(const lab::ShiftResult& result) {
  if (!result.problem.empty()) {
    return result.problem;
  }
  std::vector<std::string> causes;
  for (const auto& [cause, counts] : result.causes) {
    if (lab::is_from_evidence(cause) && counts.judged > 0) {
      causes.push_back(fmt::format("{} {}", to_text(cause), counts.judged));
    }
  }
  std::string text = fmt::format("{} of {} explained falsely", result.explained(&lab::CauseShift::judged),
                                 count_of(result.all(&lab::CauseShift::judged), "stall"));
  text += causes.empty() ? "" : fmt::format(" ({})", fmt::join(causes, ", "));
  if (const int64_t apart = result.all(&lab::CauseShift::apart); apart > 0) {
    text += fmt::format(", apart {} of {}", result.explained(&lab::CauseShift::apart), apart);
  }
  return text;
}

/// The same flag, which also notes that it was given.
Flag noted(Flag flag, bool* given) {
  flag.assign = [assign = std::move(flag.assign), given](std::string_view text) {
    *given = true;
    return assign(text);
  };
  return flag;
}

class LabMatrixSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {
        .name = "lab matrix",
        .summary = "measure how often the finding is right: many practice runs, drawn from a seed and scored",
        .example = "stalltrace lab matrix --seed 7 --runs 40 --out matrix",
        .details =
            "Each draw is a `lab run` of 5 to 8 s in DIR/drawNNNN, scored against its truth.json and written to\n"
            "DIR/draws.jsonl before the next begins; called again with the same words it goes on where it was\n"
            "ended. DIR/matrix.md and DIR/matrix.json hold the figures. Recordings of draws that went right are\n"
            "removed. A draw whose run fails is run again without agents. Needs root. With --simulated, draws are\n"
            "jobs of `lab simulate`, half of them healthy, explained in memory and scored in the same way: nothing\n"
            "runs, and no rights are needed. With --shift nothing runs either: the recordings that --keep left in DIR "
            "are\n"
            "explained again with their evidence at another time than their calls, and what is still explained by it\n"
            "is explained falsely (DIR/shift.md, DIR/shift.jsonl). Settings of practice runs:\n" +
            setting_list()};
  }
  std::vector<Flag> flags() override {
    return {
        noted(integer_flag("--seed", "N", "draws faults, locations and moments", 0, INT64_MAX, &seed_), &draws_given_),
        texts_flag("--workload", "NAME", "what the ranks run, may be repeated (default: nccl)", &options_.workloads),
        noted(integer_flag("--runs", "N", "draws", 1, 100'000, &options_.runs), &draws_given_),
        text_flag("--only", "TEXT",
                  "only settings whose name contains it; of simulated jobs: healthy, one fault, or one shape",
                  &options_.only),
        text_flag("--out", "DIR", "folder of the results", &options_.out_dir),
        switch_flag("--live", "agents look while the jobs run: how soon is a fault named?", &options_.live),
        switch_flag("--simulated", "draw simulated jobs instead of practice runs", &simulated_),
        switch_flag("--keep", "keep the recordings of all draws", &options_.keep),
        duration_flag("--shift",
                      "explain the recordings in --out again, with their evidence moved by that; runs nothing",
                      &shift_ns_)};
  }
  Result<int> run(Console& console) override {
    if (shift_ns_) {
      return shift(console);
    }
    ST_TRY(complete_options(console));
    ST_ASSIGN(const std::vector<lab::DrawResult> results, simulated_ ? simulate() : perform());
    const std::string tables = lab::matrix_to_markdown(results);
    console.out(tables);
    ST_TRY(write_file(options_.out_dir + "/matrix.md", tables));
    ST_TRY(write_file(options_.out_dir + "/matrix.json", lab::matrix_to_json(results)));
    hand_over_folder(options_.out_dir);
    return kExitDone;
  }

 private:
  Result<std::vector<lab::DrawResult>> perform() {
    ST_TRY(lab::check_privilege_and_tools());
    ST_ASSIGN(options_.program_id, program_id());
    return lab::run_campaign(options_);
  }

  /// The same words give the same jobs, which take seconds: nothing is continued.
  Result<std::vector<lab::DrawResult>> simulate() {
    ST_ASSIGN(const OwnFolder folder, OwnFolder::claim(options_.out_dir, Readers::kOwner));
    options_.out_dir = folder.path();
    const std::string path = options_.out_dir + "/draws.jsonl";
    const std::string earlier = read_file(path).value_or("");
    if (!earlier.empty() && !earlier.contains(R"("workload":"simulated:)")) {
      return fail(options_.out_dir + " holds a campaign of practice runs", "give another --out");
    }
    const auto explain_rows = [](EventSource& source) -> Result<Report> {
      ST_ASSIGN(ExplainResult result, explain(source));
      return std::move(result.report);
    };
    ST_ASSIGN(const std::string program, program_id());
    std::vector<lab::DrawResult> results;
    std::string lines;
    for (int64_t number = 0; number < options_.runs; ++number) {
      ST_ASSIGN(const simulation::JobOptions job, lab::draw_simulated(options_.seed, number, options_.only));
      ST_ASSIGN(lab::ScoredJob scored, lab::score_simulated(number, job, explain_rows, gate_of));
      scored.result.program = program;
      lines += lab::to_json_line(scored.result) + "\n";
      options_.done(scored.result);
      results.push_back(std::move(scored.result));
    }
    ST_TRY(write_file(path, lines));
    return results;
  }

  /// The shift test of a campaign that has run.
  Result<int> shift(Console& console) {
    if (draws_given_ || simulated_ || !options_.workloads.empty() || options_.live || options_.keep) {
      return fail("--shift runs nothing: it takes --out and --only alone", "leave the other flags out",
                  ErrorKind::kUsage);
    }
    if (!std::filesystem::exists(options_.out_dir + "/draws.jsonl")) {
      return fail(options_.out_dir + " holds no campaign", "give the --out of one that ran with --keep",
                  ErrorKind::kNotFound);
    }
    ST_ASSIGN(const OwnFolder folder, OwnFolder::claim(options_.out_dir, Readers::kOwner));
    std::string lines;
    const lab::ShiftOptions options{
        .out_dir = folder.path(),
        .only = options_.only,
        .shift_ns = *shift_ns_,
        .done = [&](const lab::ShiftResult& result) {
          console.note(fmt::format("draw {}, {}: {}", result.draw, result.setting, shift_text(result)));
          lines += lab::shift_to_json_line(result, *shift_ns_) + "\n";
        }};
    const auto open = [](const std::vector<std::string>& paths) -> Result<std::unique_ptr<EventSource>> {
      return store::open_recordings(paths);
    };
    ST_ASSIGN(const lab::ShiftedCampaign campaign, lab::shift_campaign(options, open, judgement_of));
    if (campaign.without_recordings > 0) {
      console.note(count_of(campaign.without_recordings, "draw") + " without recordings: not judged");
    }
    const std::string table = lab::shift_to_markdown(campaign.results, *shift_ns_);
    console.out(table);
    ST_TRY(write_file(folder.path() + "/shift.jsonl", lines));
    ST_TRY(write_file(folder.path() + "/shift.md", table));
    hand_over_folder(folder.path());
    return kExitDone;
  }

  Status complete_options(Console& console) {
    options_.seed = static_cast<uint64_t>(seed_);
    options_.gate_of = gate_of;
    options_.done = [this, &console](const lab::DrawResult& result) {
      console.note(fmt::format("draw {} of {}, {:.1f} s: {}, {}: {}", result.draw.number + 1, options_.runs,
                               result.seconds, result.draw.workload, result.draw.setting, outcome_text(result)));
    };
    if (simulated_) {
      return complete_simulated();
    }
    if (options_.workloads.empty()) {
      options_.workloads = {"nccl"};
    }
    for (const std::string& name : options_.workloads) {
      if (lab::find_workload(name) == nullptr) {
        return fail(fmt::format("workload '{}': no such workload", name), "`stalltrace lab run` takes the same ones",
                    ErrorKind::kUsage);
      }
    }
    ST_TRY(lab::draw(options_.seed, 0, options_.workloads, options_.only));
    return {};
  }

  Status complete_simulated() {
    if (!options_.workloads.empty() || options_.live || options_.keep) {
      return fail("--simulated has no --workload, --live or --keep: nothing runs",
                  "leave these flags out, or --simulated", ErrorKind::kUsage);
    }
    ST_TRY(lab::draw_simulated(options_.seed, 0, options_.only));
    return {};
  }

  lab::CampaignOptions options_ = {.runs = 50, .out_dir = "stalltrace-matrix"};
  int64_t seed_ = 1;
  bool draws_given_ = false;  // --seed or --runs
  bool simulated_ = false;
  std::optional<int64_t> shift_ns_;
};

}  // namespace

std::unique_ptr<Subcommand> make_lab_matrix_subcommand() { return std::make_unique<LabMatrixSubcommand>(); }

}  // namespace stalltrace::cli
