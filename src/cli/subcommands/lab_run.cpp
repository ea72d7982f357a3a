// SPDX-License-Identifier: Apache-2.0
// `stalltrace lab run`: one practice run, explained.
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/files/own_folder.h"
#include "cli/fleet/node_trouble.h"
#include "cli/framework/exit_code.h"
#include "cli/reporting.h"
#include "cli/subcommands/subcommands.h"
#include "lab/cluster/run.h"
#include "report/report_json.h"
#include "serve/http/tls.h"
#include "store/findings.h"

namespace stalltrace::cli {
namespace {

class LabRunSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "lab run",
            .summary = "run a real job with a real fault on virtual nodes, and explain it",
            .example = "stalltrace lab run --fault packet_loss:rank=2,percent=2 --out lab",
            .details =
                "Leaves DIR/node0.db ... (the recordings), truth.json (what "
                "was injected, where, when),\n"
                "findings.json (what stalltrace found) and the logs of "
                "ranks and agents. Needs root.\n"
                "With --serve the agents answer `stalltrace nodes`, `query` and `explain` at their nodes' addresses:\n"
                "DIR has the list of nodes, the token and the certificate's fingerprint as long as they do.\n"
                "Arguments after -- are handed to the workload.\n"
                "Faults:\n" +
                lab::fault_help()};
  }
  std::vector<Flag> flags() override {
    return {
        integer_flag("--ranks", "N", "ranks of the job", 2, 64, &ranks_),
        integer_flag("--ranks-per-node", "N", "ranks on each virtual node", 1, 64, &ranks_per_node_),
        text_flag("--workload", "NAME", "what the ranks run", &options_.workload),
        integer_flag("--steps", "N", "training steps", 1, 1'000'000, &steps_),
        texts_flag("--fault", "FAULT", "what to break, as listed below", &faults_),
        text_flag("--out", "DIR", "folder for what the run leaves; holds no earlier run", &options_.out_dir),
        integer_flag("--seed", "N", "draws what is random about the faults", 0, INT64_MAX, &seed_),
        duration_flag("--timeout", "end a job that takes longer (default: 60 s and 1 s per step)",
                      &options_.timeout_ns),
        integer_flag("--link-mbit", "N", "rate of every node's link; 0: as fast as the machine", 0, 100'000,
                     &link_mbit_),
        switch_flag("--plugin", "have every rank load the profiler plugin; its profiler files go to DIR/profiler",
                    &options_.plugin),
        switch_flag("--live", "have every agent print findings while the job runs; they go to DIR/live.json",
                    &options_.live),
        switch_flag("--serve", "have every agent serve what it records at its node's address (docs/lab.md)", &serve_),
        duration_flag("--hold", "with --serve: let the agents go on that long after the job, or until Ctrl-C",
                      &hold_ns_),
        texts_flag("--node-fault", "N=FAULT",
                   "with --serve: what is wrong with node N's server: down, hangs, slow, refuses, garbage, "
                   "bad-rows, version",
                   &node_faults_),
        switch_flag("--no-trace", "run the job without agents, for comparison", &no_trace_),
        command_argument("more arguments for the workload", &options_.workload_args)};
  }
  Result<int> run(Console& console) override {
    ST_TRY(complete_options(console));
    ST_ASSIGN(const lab::RunOutcome outcome, lab::run(options_));
    for (const std::string& warning : outcome.warnings) {
      console.note("warning: " + warning);
    }
    if (!outcome.completed) {
      console.note("the job did not complete: " + outcome.problem);
    }
    const Status explained = options_.trace ? explain(console, outcome) : Status();
    hand_over_folder(options_.out_dir);
    ST_TRY(explained);
    return outcome.completed || !options_.faults.empty() ? kExitDone : kExitFailed;
  }

 private:
  Status complete_options(Console& console) {
    options_.ranks = static_cast<int>(ranks_);
    options_.ranks_per_node = static_cast<int>(ranks_per_node_);
    options_.steps = static_cast<int>(steps_);
    options_.seed = static_cast<uint64_t>(seed_);
    options_.trace = !no_trace_;
    if (link_mbit_ > 0) {
      options_.link_mbit = link_mbit_;
    }
    options_.progress = [&console](std::string_view line) { console.note(line); };
    for (const std::string& text : faults_) {
      ST_ASSIGN(lab::FaultSpec spec, lab::parse_fault(text));
      if (spec.cause != "none") {
        options_.faults.push_back(std::move(spec));
      }
    }
    return complete_servers();
  }

  /// One token and one certificate for all agents.
  Status complete_servers() {
    if (!serve_) {
      const bool idle = node_faults_.empty() && !hold_ns_;
      return idle ? Status()
                  : Status(fail("--hold and --node-fault are for agents that serve", "give --serve, too",
                                ErrorKind::kUsage));
    }
    constexpr size_t kTokenLetters = 40;
    ST_ASSIGN(serve::TlsIdentity identity, serve::make_tls_identity());
    lab::AgentServers servers{.token = random_letters(kTokenLetters),
                              .certificate = std::move(identity.certificate),
                              .key = std::move(identity.key),
                              .fingerprint = std::move(identity.fingerprint),
                              .faults = {},
                              .hold_ns = hold_ns_.value_or(0)};
    for (const std::string& text : node_faults_) {
      ST_ASSIGN(const auto fault, parse_node_trouble(text));
      const auto [node, trouble] = fault;
      if (!suits_tls(trouble)) {
        return fail(fmt::format("--node-fault {}: that is of servers without TLS", text),
                    "give hangs, or use `stalltrace lab simulate --serve`", ErrorKind::kUsage);
      }
      servers.faults.insert({node, std::string(name_of(trouble))});
    }
    options_.servers = std::move(servers);
    return {};
  }

  Status explain(Console& console, const lab::RunOutcome& outcome) {
    ST_ASSIGN(const Report report, explain_recordings(outcome.recordings));
    print_report(console, report);
    ST_TRY(write_file(options_.out_dir + "/findings.json", report::report_to_json(report)));
    return options_.live ? write_live(outcome) : Status();
  }

  /// Writes the live findings of each agent and their times.
  Status write_live(const lab::RunOutcome& outcome) const {
    std::vector<report::ReportedFinding> all;
    for (const std::string& recording : outcome.recordings) {
      ST_ASSIGN(std::vector<Finding> findings, store::read_findings(recording));
      for (Finding& finding : findings) {
        all.push_back({std::filesystem::path(recording).stem().string(), std::move(finding)});
      }
    }
    return write_file(options_.out_dir + "/live.json", report::reported_findings_to_json(all));
  }

  lab::RunOptions options_ = {.out_dir = "stalltrace-lab"};
  int64_t ranks_ = 4;
  int64_t ranks_per_node_ = 1;
  int64_t steps_ = 200;
  int64_t seed_ = 1;
  std::vector<std::string> faults_;
  int64_t link_mbit_ = 0;
  bool no_trace_ = false;
  bool serve_ = false;
  std::optional<int64_t> hold_ns_;
  std::vector<std::string> node_faults_;
};

}  // namespace

std::unique_ptr<Subcommand> make_lab_run_subcommand() { return std::make_unique<LabRunSubcommand>(); }

}  // namespace stalltrace::cli
