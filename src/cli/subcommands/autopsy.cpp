// SPDX-License-Identifier: Apache-2.0
// `stalltrace autopsy`: a job hangs, and nothing recorded it. Takes two snapshots of its ranks on this host, or reads
// those of several hosts, and judges.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "autopsy/hosts/join_hosts.h"
#include "autopsy/judge/judge.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/files/caller.h"
#include "base/files/new_file.h"
#include "cli/evidence/autopsy_here.h"
#include "cli/evidence/autopsy_output.h"
#include "cli/fleet/autopsy/autopsy_nodes.h"
#include "cli/fleet/node_flags.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/privacy.h"
#include "cli/subcommands/subcommands.h"

namespace stalltrace::cli {
namespace {

using autopsy::JobVerdict;

constexpr size_t kMostHosts = 4096;
constexpr int64_t kNodeLimitNs = 40 * kNsPerSecond;  // beyond --seconds: servers ask RAS for 20 s, and 3 s more

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
            "verdict over all. With --nodes servers that run there (`serve --allow-autopsy`) do that at once.\n"
            "Other users' jobs, jobs in containers, and counting calls take root."};
  }
  std::vector<Flag> flags() override {
    std::vector<Flag> all = {
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
    std::ranges::move(nodes_.flags(), std::back_inserter(all));
    return all;
  }

  Result<int> run(Console& console) override {
    if (!files_.empty() && (!pids_.empty() || no_trace_ || no_ras_)) {
      return fail("--pid, --no-trace and --no-ras are for this host's ranks, FILEs are results to judge together",
                  "give one of the two", ErrorKind::kUsage);
    }
    if (nodes_.given() && (!files_.empty() || !pids_.empty())) {
      return fail("--nodes is for what the nodes' servers see, FILE and --pid for what is here", "give one of the two",
                  ErrorKind::kUsage);
    }
    if (nodes_.given() && privacy_.commands() != CommandLines::kRedacted) {
      return fail("--whole-commands is for what is read here: servers send no secrets of command lines",
                  "leave it out with --nodes", ErrorKind::kUsage);
    }
    if (files_.size() > kMostHosts) {
      return fail(fmt::format("{} FILEs, {} at most", files_.size(), kMostHosts), "give one file of each host",
                  ErrorKind::kUsage);
    }
    std::optional<NewFile> file;
    ST_ASSIGN(const AutopsyResult result, nodes_.given()   ? judge_nodes(console, file)
                                          : files_.empty() ? judge_this_host(console, file)
                                                           : judge_files(file));
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
    ST_TRY(open_out(file));
    ST_ASSIGN(std::optional<AutopsyResult> result, look_at_this_host({.pids = pids_,
                                                                      .seconds = seconds_,
                                                                      .trace = !no_trace_,
                                                                      .ras = !no_ras_,
                                                                      .commands = privacy_.commands(),
                                                                      .out = out_},
                                                                     console));
    if (!result) {
      return fail("no job runs on this host: no process uses a collective library, and no Python process has a rank",
                  "name a process with --pid; as root other users' jobs are seen too", ErrorKind::kNotFound);
    }
    return *std::move(result);
  }

  Result<AutopsyResult> judge_nodes(Console& console, std::optional<NewFile>& file) const {
    ST_TRY(open_out(file));
    return look_at_nodes(console, nodes_, {.seconds = seconds_, .trace = !no_trace_, .ras = !no_ras_}, out_);
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
    result.of_this_host = false;
    result.verdicts = autopsy::judge(result.snapshots, result.context);
    for (JobVerdict& verdict : result.verdicts) {
      std::ranges::copy(joined.notes, std::back_inserter(verdict.notes));
    }
    return result;
  }

  std::vector<std::string> files_;
  NodeFlags nodes_{kNodeLimitNs};
  std::vector<pid_t> pids_;
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
