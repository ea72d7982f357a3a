// SPDX-License-Identifier: Apache-2.0
// `stalltrace preflight`: is this node ready for a job? And: are all nodes alike?
#include "preflight/preflight.h"

#include <algorithm>

#include "base/clock.h"
#include "cli/fleet/network_tests.h"
#include "cli/fleet/node_flags.h"
#include "cli/fleet/preflight_nodes.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"
#include "preflight/output.h"

namespace stalltrace::cli {
namespace {

constexpr size_t kMostReportBytes = 4U << 20;

class PreflightSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {
        .name = "preflight",
        .summary = "is this node, or the network between nodes, ready for a job?",
        .example = "srun --ntasks-per-node=1 stalltrace preflight --network",
        .details =
            "Checks NCCL's settings, interfaces, InfiniBand ports, limits and topology of this node; it reads, and "
            "sends\n"
            "nothing. Start it as the job is started: its environment, limits and CPUs are those that the job would\n"
            "get. With FILEs it reports what differs between the nodes. With --network, in each process of a launch, "
            "the\n"
            "nodes test each other: connections, path MTU, latency, bandwidth, retransmissions, and a barrier of all\n"
            "ranks; with --collectives the job's NCCL makes collectives, too. Rank 0 reports. With --nodes the same,\n"
            "without a launch and collectives, by nodes where `stalltrace serve --allow-preflight` (or trace --serve)\n"
            "runs; the first one is rank 0, and limits and environment of a job are not checked. Exit code 4 if a\n"
            "check failed."};
  }
  std::vector<Flag> flags() override {
    std::vector<Flag> all{
        integer_flag("--pid", "PID", "check the settings of this running process instead of the own environment", 1,
                     INT32_MAX, &pid_),
        optional(arguments("FILE", "reports of several nodes, written with --json: compare them", &reports_)),
        switch_flag("--json", "print one JSON object, for programs", &json_)};
    std::ranges::move(network_.flags(), std::back_inserter(all));
    std::ranges::move(nodes_.flags(), std::back_inserter(all));
    return all;
  }

  Result<int> run(Console& console) override {
    if (pid_ != 0 && !reports_.empty()) {
      return fail("--pid is for a check of this node, FILEs are reports to compare", "give one of the two",
                  ErrorKind::kUsage);
    }
    if (network_.with_collectives() && !network_.given()) {
      return fail("--collectives is a test of the ranks of a launch, which --network begins",
                  "start 'stalltrace preflight --network --collectives' in one process for each GPU",
                  ErrorKind::kUsage);
    }
    if (nodes_.given()) {
      if (network_.given() || pid_ != 0 || !reports_.empty()) {
        return fail("--nodes has servers make the tests; --network, --pid and FILEs are for other checks",
                    "give one of them", ErrorKind::kUsage);
      }
      ST_ASSIGN(const preflight::Launch limits, network_.limits());
      return test_nodes(console, nodes_, limits, json_);
    }
    if (network_.given()) {
      if (pid_ != 0 || !reports_.empty()) {
        return fail("--network tests the nodes of a launch; --pid and FILEs are for other checks", "give one of them",
                    ErrorKind::kUsage);
      }
      return network_.run(console, own_environment(), json_);
    }
    return reports_.empty() ? check(console) : compare(console);
  }

 private:
  Result<int> check(Console& console) const {
    Environment environment = own_environment();
    preflight::HostFiles files;
    if (pid_ != 0) {
      const Procfs procfs;
      auto found = procfs.environment(static_cast<pid_t>(pid_));
      if (!found) {
        return with_context("process " + std::to_string(pid_), found.error());
      }
      environment = std::move(*found);
      files.root = procfs.path(static_cast<pid_t>(pid_), "root");
      files.folder = procfs.path(static_cast<pid_t>(pid_), "cwd");
      files.etc = files.root + "/etc";
    }
    ST_ASSIGN(const preflight::HostReport report, preflight::check_this_host(environment, files));
    console.out(json_ ? preflight::report_json(report) : preflight::report_text(report));
    return report.failed() ? kExitPreflight : kExitDone;
  }

  Result<int> compare(Console& console) const {
    confine_to_reading(reports_);
    std::vector<preflight::HostReport> hosts;
    for (const std::string& path : reports_) {
      ST_ASSIGN(const std::string content, preflight::read_plain_file(path, kMostReportBytes));
      auto report = preflight::parse_report(content);
      if (!report) {
        return with_context(path, report.error());
      }
      hosts.push_back(std::move(*report));
    }
    if (hosts.size() < 2) {
      return fail("one report has nothing to be compared with", "name the files of all nodes", ErrorKind::kUsage);
    }
    const std::vector<preflight::HostCheck> found = preflight::compare_hosts(hosts);
    console.out(json_ ? preflight::comparison_json(hosts, found) : preflight::checks_text(found));
    return std::ranges::any_of(
               found, [](const preflight::HostCheck& one) { return one.outcome == preflight::Outcome::kFailed; })
               ? kExitPreflight
               : kExitDone;
  }

  NetworkTests network_;
  NodeFlags nodes_{10 * kNsPerSecond};
  int64_t pid_ = 0;
  std::vector<std::string> reports_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_preflight_subcommand() { return std::make_unique<PreflightSubcommand>(); }

}  // namespace stalltrace::cli
