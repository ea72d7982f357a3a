// SPDX-License-Identifier: Apache-2.0
// `stalltrace run`: starts a job with all evidence enabled, and explains its hangs and its end.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "base/clock.h"
#include "capture/discover/identity.h"
#include "cli/command_start.h"
#include "cli/fleet/push_flags.h"
#include "cli/framework/exit_code.h"
#include "cli/privacy.h"
#include "cli/run/run_evidence.h"
#include "cli/run/run_trace.h"
#include "cli/subcommands/subcommands.h"
#include "cli/trusted_owners.h"
#include "launch/hang_watch.h"
#include "launch/job.h"
#include "launch/profiler_progress.h"
#include "launch/supervision/supervisor.h"

namespace stalltrace::cli {
namespace {

constexpr int64_t kFileRoundNs = 500 * kNsPerMs;  // interval at which profiler files are read

/// If the requested folder can't be used, the job still starts.
Result<launch::RunFolder> claim_some_folder(const std::string& wanted, Readers readers, Console& console) {
  Result<launch::RunFolder> folder = launch::claim_run_folder(wanted, readers);
  if (folder) {
    return folder;
  }
  console.error(folder.error());
  return launch::temporary_run_folder(wanted, readers);
}

/// The plugin records on in the job's processes: their profiler files are not copied any more.
std::string rest_without_evidence_process(launch::Supervisor::Loss when, const std::vector<std::string>& environment) {
  using enum launch::Supervisor::Loss;
  if (when == kBeforeTheStart) {
    return "nothing is recorded";
  }
  if (when == kAfterAllWasStored) {
    return "the evidence is in the run's folder (read it: stalltrace explain); the job's exit code stays";
  }
  const std::string folder = RunEvidence::profiler_folder_in(environment);
  const std::string files =
      folder.empty() ? "" : fmt::format(", and profiler files stay in {} (read them: stalltrace import)", folder);
  return when == kWhileTheCommandRuns
             ? fmt::format("nothing more is traced or explained; the job goes on{}", files)
             : fmt::format("what was recorded until then is in the run's folder{}; the job's exit code stays", files);
}

class RunSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "run",
            .summary = "start a job with all evidence switched on; explain when it hangs and when it ends",
            .example = "stalltrace run --out run7 -- torchrun --nproc-per-node 8 train.py",
            .details =
                "- NCCL loads the profiler plugin, which keeps a profiler file for each process (DIR/profiler at the\n"
                "  end), and logs to DIR.\n"
                "- Where this user may trace, the node is recorded as by `trace -- COMMAND`.\n"
                "- When no collective completes for --hang-after while some are open, the explanation is printed at\n"
                "  once, and again when it becomes another; the job goes on.\n"
                "- At the end the run is explained, and the job's exit code returned.\n"
                "Signals and standard output are the job's. On several nodes start each node's launcher this way, and\n"
                "explain the recordings together."};
  }

  std::vector<Flag> flags() override {
    std::vector<Flag> all{
        text_flag("--out", "DIR", "folder for what the run leaves; else stalltrace-run-NODE, numbered when taken",
                  &out_),
        duration_flag("--hang-after", "explain when nothing completed for this long", &hang_after_ns_),
        text_flag("--node", "NAME", "this node's name; else STALLTRACE_NODE, the host's name", &node_),
        trust_owner_flag(&trusted_owners_),
        switch_flag("--no-trace", "leave the kernel alone: the profiler plugin only", &no_trace_),
        privacy_.group_flag(),
        privacy_.readers_flag(),
        privacy_.commands_flag(),
        waits_.flag(),
        push_.token_flag(),
        required(command_argument("the job's command", &command_))};
    std::ranges::move(push_.flags("copy the run's recordings to this folder or server at the end (`stalltrace push`)"),
                      std::back_inserter(all));
    return all;
  }

  Result<int> run(Console& console) override {
    launch::Job job;  // first: it records the state at our start
    if (const auto refused = refuse_command(command_, console)) {
      return *refused;
    }
    ST_ASSIGN(trusted_, parse_trusted_owners(trusted_owners_));
    ST_TRY(push_.prepare());
    const launch::Patience patience = waits_.patience();
    launch::Supervisor supervisor(job, "the evidence process", rest_without_evidence_process, patience.outer(),
                                  reporting_to(console));
    const pid_t launcher = ::getpid();
    const auto refused = supervisor.prepare("st-evidence", [&](launch::WorkerSide& side) {
      launch::JobNews news(side);
      keep_evidence(console, news, launcher, patience);
      return kExitDone;
    });
    if (refused) {
      return *refused;
    }
    if (Status started = supervisor.start(command_); !started) {
      return code_of_failed_start(std::move(started.error()), console);
    }
    return supervisor.wait();
  }

 private:
  /// The whole life of the evidence process. Nothing in it may prevent the job from starting.
  void keep_evidence(Console& console, launch::JobNews& job, pid_t launcher, const launch::Patience& patience) const {
    auto folder = claim_some_folder(out_.empty() ? launch::default_run_folder(capture::node_name(node_)) : out_,
                                    privacy_.readers(), console);
    if (!folder) {
      console.error(folder.error());
      console.note("the job runs without any evidence");
      job.ready({});
      return;
    }
    RunEvidence evidence(std::move(*folder), {.node = node_, .launcher = launcher, .patience = patience}, privacy_, job,
                         console);
    std::optional<RunTrace> trace =
        no_trace_
            ? std::nullopt
            : RunTrace::start(evidence.folder(),
                              {.node = node_, .trusted_owners = trusted_, .launcher = launcher, .patience = patience},
                              privacy_, console);
    job.ready(evidence.environment());
    if (!job.wait_for_start()) {
      if (trace) {
        trace->finish(job);
      }
      evidence.discard();
      return;
    }
    watch(job, trace ? &*trace : nullptr, evidence);
    if (job.asked_to_end()) {
      evidence.save_soon();  // while the tracer finishes
    }
    RunEvidence::Traced traced;
    if (trace) {
      trace->finish(job);
      traced = {.recorded = trace->is_recorded(),
                .whole = trace->is_whole(),
                .has_profiler_rows = trace->has_profiler_rows(),
                .only_other_libraries = trace->only_other_libraries()};
    }
    evidence.collect();
    job.stored();
    evidence.conclude(traced, *job.code());
    for (const std::string& recording : {evidence.folder().recording(), evidence.folder().profiler_recording()}) {
      if (::access(recording.c_str(), F_OK) == 0) {
        push_.push(recording, privacy_.readers(), console);
      }
    }
  }

  /// Until the job has ended: explains it when it stands still.
  void watch(launch::JobNews& job, RunTrace* trace, RunEvidence& evidence) const {
    std::optional<launch::ProfilerProgress> files;  // without a tracer they show the job's progress
    launch::HangWatch hang(hang_after_ns_);
    for (job.look(); !job.code(); job.look()) {
      evidence.look();
      if (job.asked_to_end()) {
        evidence.save_soon();
      }
      std::optional<launch::Progress> progress;
      if (trace != nullptr && trace->is_running()) {
        progress = trace->look();
      } else if (!files) {
        files.emplace(evidence.profiler_files().folder(), [&](const blackbox::ProfilerFileReader& file) {
          return evidence.profiler_files().is_of_this_run(file);
        });
        hang = launch::HangWatch(hang_after_ns_);
      }
      if (files) {
        progress = files->read();
      }
      if (progress) {
        look_for_a_hang(hang, *progress, files ? nullptr : trace, evidence);
      }
      wait_for_news(job, trace);
    }
  }

  static void wait_for_news(const launch::JobNews& job, const RunTrace* trace) {
    std::array<pollfd, 3> waits{
        {{.fd = job.descriptor(), .events = POLLIN, .revents = 0},
         {.fd = trace == nullptr ? -1 : trace->descriptor(), .events = POLLIN, .revents = 0},
         {.fd = trace == nullptr ? -1 : trace->end_descriptor(), .events = POLLIN, .revents = 0}}};
    (void)::poll(waits.data(), waits.size(), kFileRoundNs / kNsPerMs);
  }

  /// Explains a job that stands still, and notes that it continues. `trace`: what records it, or null: the profiler
  /// files do.
  static void look_for_a_hang(launch::HangWatch& hang, const launch::Progress& progress, RunTrace* trace,
                              RunEvidence& evidence) {
    using enum launch::HangWatch::News;
    const launch::HangWatch::News news = hang.look(progress, utc_now_ns());
    if (news == kGoesOn) {
      evidence.note_progress(hang.still_ns());
    }
    if (news != kStandsStill && news != kStillStands) {
      return;
    }
    const int64_t begun_ns = monotonic_now_ns();
    if (trace != nullptr) {
      trace->flush();
    }
    evidence.explain_hang(progress, hang.still_ns(),
                          trace == nullptr ? std::nullopt : std::optional(evidence.folder().recording()),
                          news == kStillStands);
    hang.explained(monotonic_now_ns() - begun_ns);
  }

  std::string out_;
  std::string node_;
  int64_t hang_after_ns_ = 3 * kNsPerSecond;
  bool no_trace_ = false;
  std::vector<std::string> trusted_owners_;
  TrustedOwners trusted_;
  PushFlags push_;
  Waits waits_;
  Privacy privacy_;
  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Subcommand> make_run_subcommand() { return std::make_unique<RunSubcommand>(); }

}  // namespace stalltrace::cli
