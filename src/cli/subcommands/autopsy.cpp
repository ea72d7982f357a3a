// SPDX-License-Identifier: Apache-2.0
// `stalltrace autopsy`: a job hangs, and nothing recorded it. Takes two snapshots of its ranks on this host, and
// judges.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autopsy/host/take_snapshot.h"
#include "autopsy/host/watch_calls.h"
#include "autopsy/judge/judge.h"
#include "autopsy/output/autopsy_text.h"
#include "base/clock.h"
#include "base/files/new_file.h"
#include "base/process/procfs.h"
#include "base/text.h"
#include "capture/discover/identity.h"
#include "cli/framework/exit_code.h"
#include "cli/privacy.h"
#include "cli/running_jobs.h"
#include "cli/subcommands/subcommands.h"
#include "report/findings_text.h"
#include "report/page.h"

namespace stalltrace::cli {
namespace {

using autopsy::JobState;
using autopsy::JobVerdict;
using autopsy::Snapshot;

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
            "reported as not hung. Nothing is stopped. What other hosts' ranks do is not seen: run it there too.\n"
            "Other users' jobs, jobs in containers, and counting calls take root."};
  }
  std::vector<Flag> flags() override {
    return {pids_flag("--pid", "only ranks among these processes and their descendants; may be given as 12,34", &pids_),
            integer_flag("--seconds", "N", "time between the two snapshots", 1, 60, &seconds_),
            switch_flag("--no-trace", "put no probes on the job's calls between the two snapshots", &no_trace_),
            switch_flag("--json", "print one JSON object, for programs", &json_),
            text_flag("--out", "FILE", "write the JSON object to this file too; an existing one is never overwritten",
                      &out_),
            switch_flag("--exit-code", "exit with 3 when there are findings", &exit_code_),
            privacy_.commands_flag()};
  }

  Result<int> run(Console& console) override {
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
    std::optional<NewFile> file;
    if (!out_.empty()) {
      ST_ASSIGN(NewFile created, NewFile::create(out_, S_IRUSR | S_IWUSR));
      file.emplace(std::move(created));
    }
    autopsy::Context context{.node = capture::node_name(""), .utc_offset_ns = measure_utc_offset_ns(), .traced = {}};
    const std::vector<Snapshot> snapshots = take_snapshots(console, procfs, ranks, context.traced);
    const std::vector<JobVerdict> verdicts = autopsy::judge(snapshots, context);
    const std::string json = json_ || file ? json_of(snapshots, verdicts, context) : "";
    if (file) {
      ST_TRY(file->append(json));
      ST_TRY(file->publish(IfThere::kFail));
    }
    console.out(json_ ? json : text_of(snapshots.back(), verdicts, console.colour_out()));
    const bool found = std::ranges::any_of(verdicts, [](const JobVerdict& one) { return !one.findings.empty(); });
    return exit_code_ && found ? kExitFindings : kExitDone;
  }

 private:
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
                                       autopsy::Traced& traced) const {
    std::vector<autopsy::RankToRead> to_read;
    for (const RunningRank& rank : ranks) {
      to_read.push_back({rank.pid, rank.rank, rank.job});
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

  static std::string text_of(const Snapshot& last, const std::vector<JobVerdict>& verdicts, bool colour) {
    std::string text;
    for (const JobVerdict& verdict : verdicts) {
      report::Page page(colour);
      const std::string who = verdict.job.empty() ? "job" : "job " + printable(verdict.job);
      page.line(fmt::format("{}{}, {} here: {}", text.empty() ? "" : "\n", page.paint(who, report::kBold),
                            count_of(verdict.ranks, "rank"), printable(verdict.text)));
      text += page.take() + autopsy::job_text(last, verdict);
      text += report::findings_to_text(verdict.findings, {.colour = colour});
      report::Page notes(colour);
      for (const std::string& note : verdict.notes) {
        notes.field("note", note);
      }
      text += notes.take();
    }
    return text;
  }

  [[nodiscard]] static std::string json_of(const std::vector<Snapshot>& snapshots,
                                           const std::vector<JobVerdict>& verdicts, const autopsy::Context& context) {
    using Json = nlohmann::ordered_json;
    const Snapshot& last = snapshots.back();
    Json json{{"schema", 1},
              {"node", context.node},
              {"taken_ns", last.taken_ns + context.utc_offset_ns},
              {"watched_ms", (last.taken_ns - snapshots.front().taken_ns) / kNsPerMs},
              {"traced", context.traced.done}};
    json["jobs"] = Json::array();
    for (const JobVerdict& verdict : verdicts) {
      Json findings = Json::array();
      for (const Finding& finding : verdict.findings) {
        findings.push_back(report::finding_to_json(finding));
        if (finding.collectives_affected == 0) {  // no call with a known operation
          findings.back()["op"] = nullptr;
        }
      }
      json["jobs"].push_back({{"job", verdict.job},
                              {"ranks", verdict.ranks},
                              {"state", to_text(verdict.state)},
                              {"text", verdict.text},
                              {"findings", std::move(findings)},
                              {"notes", verdict.notes}});
    }
    json["ranks"] = autopsy::ranks_json(last);
    return escape_in_json(json.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
  }

  std::vector<int32_t> pids_;
  int64_t seconds_ = 3;
  std::string out_;
  bool no_trace_ = false;
  bool json_ = false;
  bool exit_code_ = false;
  Privacy privacy_;
};

}  // namespace

std::unique_ptr<Subcommand> make_autopsy_subcommand() { return std::make_unique<AutopsySubcommand>(); }

}  // namespace stalltrace::cli
