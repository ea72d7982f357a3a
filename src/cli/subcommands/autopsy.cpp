// SPDX-License-Identifier: Apache-2.0
// `stalltrace autopsy`: a job hangs, and nothing recorded it. Takes two snapshots of its ranks on this host, or reads
// those of several hosts, and judges.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "autopsy/host/take_snapshot.h"
#include "autopsy/host/watch_calls.h"
#include "autopsy/hosts/join_hosts.h"
#include "autopsy/judge/judge.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/files/caller.h"
#include "base/files/new_file.h"
#include "base/process/procfs.h"
#include "base/text.h"
#include "capture/discover/identity.h"
#include "cli/evidence/autopsy_output.h"
#include "cli/evidence/job_ras.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/privacy.h"
#include "cli/running_jobs.h"
#include "cli/subcommands/subcommands.h"

namespace stalltrace::cli {
namespace {

using autopsy::JobVerdict;
using autopsy::Snapshot;

constexpr size_t kMostHosts = 4096;

class AutopsySubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {
        .name = "autopsy",
        .summary = "a job hangs and nothing recorded it: who waits, who is to blame",
        .example = "sudo stalltrace autopsy",
        .details =
            "Takes two snapshots of every rank on this host: where its threads are, in which call, and what its TCP\n"
            "sockets hold; in between, calls that end are counted, as `trace` sees them. A job that gets on is\n"
            "reported as not hung. Nothing is stopped; counting writes breakpoints into the job's libraries for that\n"
            "time, which --no-trace does without. Where NCCL's RAS listens in the job, it is asked. What other hosts'\n"
            "ranks do is not seen: run it there too, with --out, and give the files of all hosts as FILE for one\n"
            "verdict over all.\n"
            "Other users' jobs, jobs in containers, and counting calls take root."};
  }
  std::vector<Flag> flags() override {
    return {
        optional(arguments("FILE", "results of several hosts, written with --out: one verdict over all", &files_)),
        pids_flag("--pid", "only ranks among these processes and their descendants; may be given as 12,34", &pids_),
        integer_flag("--seconds", "N", "time between the two snapshots", 1, autopsy::kLongestWatchSeconds, &seconds_),
        switch_flag("--no-trace", "put no probes on the job's calls between the two snapshots", &no_trace_),
        switch_flag("--no-ras", "do not ask the job's RAS (NCCL 2.24 and newer)", &no_ras_),
        switch_flag("--json", "print one JSON object, for programs", &json_),
        text_flag("--out", "FILE", "write the JSON object to this file too; an existing one is never overwritten",
                  &out_),
        switch_flag("--exit-code", "exit with 3 when there are findings", &exit_code_),
        privacy_.commands_flag()};
  }

  Result<int> run(Console& console) override {
    if (!files_.empty() && (!pids_.empty() || no_trace_ || no_ras_)) {
      return fail("--pid, --no-trace and --no-ras are for this host's ranks, FILEs are results to judge together",
                  "give one of the two", ErrorKind::kUsage);
    }
    if (files_.size() > kMostHosts) {
      return fail(fmt::format("{} FILEs, {} at most", files_.size(), kMostHosts), "give one file of each host",
                  ErrorKind::kUsage);
    }
    std::optional<NewFile> file;
    ST_ASSIGN(const AutopsyResult result, files_.empty() ? judge_this_host(console, file) : judge_files(file));
    const std::string json = json_ || file ? autopsy_to_json(result) : "";
    if (file) {
      ST_TRY(file->append(json));
      (void)hand_to_caller(file->descriptor());
      ST_TRY(file->publish(IfThere::kFail));
    }
    console.out(json_ ? json : autopsy_to_text(result, console.colour_out()));
    const bool found =
        std::ranges::any_of(result.verdicts, [](const JobVerdict& one) { return !one.findings.empty(); });
    return exit_code_ && found ? kExitFindings : kExitDone;
  }

 private:
  Status open_out(std::optional<NewFile>& file) const {
    if (!out_.empty()) {
      ST_ASSIGN(NewFile created, NewFile::create(out_, S_IRUSR | S_IWUSR));
      file.emplace(std::move(created));
    }
    return {};
  }

  Result<AutopsyResult> judge_this_host(Console& console, std::optional<NewFile>& file) const {
    const Procfs procfs("/proc", privacy_.commands());
    for (const pid_t pid : pids_) {
      if (!procfs.exists(pid)) {
        return fail(fmt::format("there is no process {}", pid), "list the host's processes with ps -e",
                    ErrorKind::kNotFound);
      }
    }
    const std::vector<RunningRank> ranks = wanted(procfs);
    if (ranks.empty()) {
      return fail("no job runs on this host: no process uses a collective library, and no Python process has a rank",
                  "name a process with --pid; as root other users' jobs are seen too", ErrorKind::kNotFound);
    }
    ST_TRY(open_out(file));
    const std::string node = capture::node_name("");
    AutopsyResult result;
    result.context.utc_offset_ns = measure_utc_offset_ns();
    result.snapshots = take_snapshots(console, procfs, ranks, node, result.context.traced[node]);
    std::vector<JobRas> ras =
        no_ras_ ? std::vector<JobRas>() : ask_ras_of_jobs(procfs, result.snapshots.back(), console);
    if (std::ranges::any_of(ras, [](const JobRas& one) { return !one.answers.empty(); })) {
      confine_to_reading({}, out_);  // what follows reads what a user's job answered
      result.context.ras = read_ras_answers(ras);
    }
    result.verdicts = autopsy::judge(result.snapshots, result.context);
    for (const JobRas& one : ras) {
      const auto of_job = std::ranges::find(result.verdicts, one.job, &JobVerdict::job);
      if (!one.problem.empty() && of_job != result.verdicts.end()) {
        of_job->notes.push_back(one.problem);
      }
    }
    return result;
  }

  Result<AutopsyResult> judge_files(std::optional<NewFile>& file) const {
    ST_TRY(open_out(file));
    confine_to_reading(files_, out_);
    std::vector<autopsy::HostResult> hosts;
    for (const std::string& path : files_) {
      ST_ASSIGN(const std::string content, read_whole(path, autopsy::kLargestResult));
      auto host = autopsy::read_result(content);
      if (!host) {
        return with_context(path, std::move(host.error()));
      }
      host->file = path;
      hosts.push_back(std::move(*host));
    }
    ST_ASSIGN(autopsy::JoinedHosts joined, autopsy::join_hosts(std::move(hosts)));
    AutopsyResult result{
        .snapshots = std::move(joined.snapshots), .context = std::move(joined.context), .verdicts = {}};
    result.verdicts = autopsy::judge(result.snapshots, result.context);
    for (JobVerdict& verdict : result.verdicts) {
      std::ranges::copy(joined.notes, std::back_inserter(verdict.notes));
    }
    return result;
  }

  [[nodiscard]] std::vector<RunningRank> wanted(const Procfs& procfs) const {
    std::vector<RunningRank> ranks = running_ranks(procfs);
    if (pids_.empty()) {
      return ranks;
    }
    std::vector<RunningRank> chosen;
    for (const pid_t pid : pids_) {
      const std::vector<pid_t> below = descendants_of(procfs, pid);
      const auto of_pid = [&](const RunningRank& rank) {
        return rank.pid == pid || std::ranges::find(below, rank.pid) != below.end();
      };
      const size_t before = chosen.size();
      std::ranges::copy_if(ranks, std::back_inserter(chosen), of_pid);
      std::erase_if(ranks, of_pid);
      if (chosen.size() == before) {
        std::ranges::copy(asked_ranks(procfs, std::span(&pid, 1)), std::back_inserter(chosen));
      }
    }
    return chosen;
  }

  std::vector<Snapshot> take_snapshots(Console& console, const Procfs& procfs, const std::vector<RunningRank>& ranks,
                                       const std::string& node, autopsy::Traced& traced) const {
    std::vector<autopsy::RankToRead> to_read;
    for (const RunningRank& rank : ranks) {
      to_read.push_back({node, rank.pid, rank.rank, rank.job, rank.launcher_job});
    }
    std::vector<Snapshot> snapshots;
    snapshots.push_back(autopsy::take_snapshot(procfs, to_read));
    if (console.shows_progress()) {
      console.live(fmt::format("{} on this host; the second snapshot is taken in {} s",
                               count_of(static_cast<int64_t>(ranks.size()), "rank"), seconds_));
    }
    const int64_t watched_ns = seconds_ * kNsPerSecond;
    traced = no_trace_ ? autopsy::watch_nothing(watched_ns) : autopsy::watch_calls(to_read, watched_ns);
    if (console.shows_progress()) {
      console.live("");
    }
    snapshots.push_back(autopsy::take_snapshot(procfs, to_read));
    return snapshots;
  }

  std::vector<std::string> files_;
  std::vector<int32_t> pids_;
  int64_t seconds_ = 3;
  std::string out_;
  bool no_trace_ = false;
  bool no_ras_ = false;
  bool json_ = false;
  bool exit_code_ = false;
  Privacy privacy_;
};

}  // namespace

std::unique_ptr<Subcommand> make_autopsy_subcommand() { return std::make_unique<AutopsySubcommand>(); }

}  // namespace stalltrace::cli
