// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/run.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/files/own_folder.h"
#include "base/text.h"
#include "lab/cluster/agents.h"
#include "lab/cluster/artefacts/artefacts.h"
#include "lab/cluster/host/command.h"
#include "lab/cluster/host/interrupt.h"
#include "lab/cluster/host/lock.h"
#include "lab/cluster/host/network.h"
#include "lab/cluster/injection/injector.h"
#include "lab/cluster/injection/leftovers.h"
#include "lab/cluster/ranks.h"
#include "lab/cluster/truth.h"
#include "lab/cluster/workload.h"

namespace stalltrace::lab {
namespace {

constexpr int kTickMs = 10;
/// Wait after the last rank's end, until its last events reach the agents.
constexpr std::chrono::milliseconds kLastEventsWait{200};
/// Until the agents, which store twice a second, have stored those events: then each answer is complete.
constexpr std::chrono::milliseconds kStoredWait{1000};

int64_t default_timeout_ns(int steps) { return (60 + static_cast<int64_t>(steps)) * kNsPerSecond; }

Status check_options(const RunOptions& options) {
  if (options.ranks < 1 || options.ranks > kMaximumRanks) {
    return fail(fmt::format("{} ranks", options.ranks), fmt::format("ask for 1 to {}", kMaximumRanks),
                ErrorKind::kUsage);
  }
  if (options.ranks_per_node < 1 || options.ranks % options.ranks_per_node != 0) {
    return fail(fmt::format("{} ranks, {} on each node", options.ranks, options.ranks_per_node),
                "ask for as many ranks on every node", ErrorKind::kUsage);
  }
  if (options.steps < 1) {
    return fail(fmt::format("{} steps", options.steps), "ask for at least 1", ErrorKind::kUsage);
  }
  if (find_workload(options.workload) == nullptr) {
    std::string names;
    for (const WorkloadRow& row : workload_rows()) {
      names += (names.empty() ? "" : ", ") + std::string(row.name);
    }
    return fail(fmt::format("workload '{}': no such workload", options.workload), "the workloads are " + names,
                ErrorKind::kUsage);
  }
  const WorkloadRow& workload = *find_workload(options.workload);
  for (const FaultSpec& fault : options.faults) {
    ST_TRY(check_fault(workload, fault));
  }
  if (workload.ready != nullptr) {
    ST_TRY(workload.ready());
  }
  if (options.servers && !options.trace) {
    return fail("without agents nothing is served", "leave out --serve or --no-trace", ErrorKind::kUsage);
  }
  if (options.servers && !options.servers->faults.empty() &&
      options.servers->faults.rbegin()->first >= options.ranks / options.ranks_per_node) {
    return fail(fmt::format("a fault of node {}: there is no such node", options.servers->faults.rbegin()->first),
                "nodes count from 0", ErrorKind::kUsage);
  }
  if (options.out_dir.empty()) {
    return fail("no folder for the results", "give one with --out DIR", ErrorKind::kUsage);
  }
  return {};
}

/// Prepares the folder. Refuses one with an earlier run, and one that other users can write into, since root executes
/// files from it. `serves`: the run writes files for those who ask its agents, and removes them.
Result<OwnFolder> prepare_folder(const std::string& out_dir, bool serves) {
  namespace fs = std::filesystem;
  ST_ASSIGN(OwnFolder folder, OwnFolder::claim(out_dir, Readers::kOwner));
  std::error_code error;
  for (fs::directory_iterator entry(folder.path(), error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool node_folder = name.starts_with("node") && entry->is_directory(error);  // a run makes and removes these
    const bool of_servers = serves && std::ranges::find(kServerFiles, name) != kServerFiles.end();
    if (name == "truth.json" || name == "profiler" || (name.starts_with("node") && name.ends_with(".db")) ||
        node_folder || of_servers) {
      return fail(fmt::format("{} holds an earlier run or something else ({})", folder.path(), name),
                  "give another --out, or remove that folder");
    }
  }
  return folder;
}

/// One run. Members are in the order of construction, so that they are destroyed in reverse.
class Run {
 public:
  explicit Run(RunOptions options) : options_(std::move(options)) {}

  Result<RunOutcome> perform() {
    ST_TRY(check_options(options_));
    ST_TRY(check_privilege_and_tools());
    std::error_code ignored;
    const Status started = set_up();
    if (!started) {
      agents_.discard_recordings();
      server_files_.reset();
      if (folder_.created()) {
        std::filesystem::remove(profiler_folder(options_), ignored);  // both only while they are empty
        folder_.remove_itself();
      }
      return std::unexpected(started.error());
    }
    const Status watched = watch();
    Status finished = finish(watched);
    if (!watched) {
      Error error = watched.error();
      if (error.kind == ErrorKind::kInterrupted) {
        error.remedy = "what was recorded until then is in " + options_.out_dir;
      }
      return std::unexpected(std::move(error));
    }
    ST_TRY(finished);
    return std::move(outcome_);
  }

 private:
  void log(std::string_view line) const {
    if (options_.progress) {
      options_.progress(line);
    }
  }

  /// Prepares the run, up to the start of the ranks. What the user got wrong is reported even while another lab runs.
  Status set_up() {
    ST_ASSIGN(folder_, prepare_folder(options_.out_dir, options_.servers.has_value()));
    options_.out_dir = folder_.path();
    if (options_.plugin && ::mkdir(profiler_folder(options_).c_str(), 0755) != 0) {
      return fail_errno("create " + profiler_folder(options_), errno);
    }
    for (int rank = 0; rank < options_.ranks; ++rank) {
      nodes_.push_back(make_node(rank, options_.out_dir, options_.ranks_per_node));
    }
    const std::vector<VirtualNode> hosts = one_per_node(nodes_);
    ST_ASSIGN(Injector injector, Injector::make(options_.faults, nodes_, options_.steps, options_.seed,
                                                [this](std::string_view line) { log(line); }));
    ST_ASSIGN(LabLock lock, LabLock::take());
    lock_.emplace(std::move(lock));
    ST_ASSIGN(const std::vector<std::string> cleared, clear_killed_run());
    if (!cleared.empty()) {
      log("removed what a killed run had left: " + fmt::format("{}", fmt::join(cleared, ", ")));
    }
    ST_ASSIGN(LeftoverNote note, LeftoverNote::make(hosts, options_.out_dir, options_.servers.has_value()));
    note_.emplace(std::move(note));
    ST_ASSIGN(Network network, Network::make(hosts, options_.link_mbit));
    network_.emplace(std::move(network));
    for (const VirtualNode& node : hosts) {
      ST_ASSIGN(NodeFolder folder, NodeFolder::make(node));
      folders_.push_back(std::move(folder));
      ST_TRY(interrupt_.check());
    }
    log(fmt::format("{} virtual nodes are up", hosts.size()));
    started_ns_ = utc_now_ns();
    if (options_.trace) {
      if (options_.servers) {
        ST_ASSIGN(ServerFiles files, ServerFiles::write(*options_.servers, hosts, options_.out_dir));
        server_files_.emplace(std::move(files));
      }
      ST_TRY(agents_.start(options_.agent, hosts, options_.out_dir,
                           [this](const VirtualNode& node) { return arguments_of_agent(node); }));
      ST_TRY(agents_.wait_ready(options_.agent_ready_ns, interrupt_));
      log("the agents are ready");
      if (options_.servers) {
        log("to ask them: " + asking_command(*options_.servers, options_.out_dir));
      }
    }
    job_id_ = fmt::format("lab-{}", options_.seed);
    ST_TRY(injector.prepare());
    ST_TRY(ranks_.start(options_, job_id_, nodes_));
    log(fmt::format("{} ranks of workload {} are running", nodes_.size(), options_.workload));
    injector_.emplace(std::move(injector));
    return {};
  }

  [[nodiscard]] std::vector<std::string> arguments_of_agent(const VirtualNode& node) const {
    std::vector<std::string> words =
        options_.servers ? server_arguments(*options_.servers, node, options_.out_dir) : std::vector<std::string>();
    if (options_.live) {
      words.emplace_back("--live");
    }
    return words;
  }

  /// Runs until the ranks have ended, the time is up, a signal came or a fault could not be injected.
  Status watch() {
    int64_t deadline_ns = monotonic_now_ns() + options_.timeout_ns.value_or(default_timeout_ns(options_.steps));
    bool death_seen = false;
    JobProgress progress;
    int64_t first_step_monotonic_ns = 0;
    for (;;) {
      wait_for_event();
      ST_TRY(interrupt_.check());
      ST_TRY(ranks_.reap(nodes_));
      if (ranks_.all_ended()) {
        outcome_.problem = ranks_.failure();
        return {};
      }
      const int64_t now_ns = monotonic_now_ns();
      if (!death_seen && !ranks_.failure().empty()) {
        death_seen = true;
        outcome_.problem = ranks_.failure();
        log(outcome_.problem);
        deadline_ns = std::min(deadline_ns, now_ns + options_.after_death_ns);
      }
      if (now_ns >= deadline_ns) {
        if (!death_seen) {
          outcome_.problem = fmt::format("the ranks did not end in time; rank 0 finished {} of {} steps",
                                         progress.steps, options_.steps);
        }
        return {};
      }
      progress.steps = ranks_.steps_of_rank0();
      if (first_step_ns_ == 0 && progress.steps > 0) {
        first_step_ns_ = utc_now_ns();
        first_step_monotonic_ns = now_ns;
      }
      if (first_step_ns_ != 0) {
        progress.since_first_step_ns = now_ns - first_step_monotonic_ns;
      }
      ST_TRY(injector_->tick(progress));
    }
  }

  /// Waits for a tick, or less if something ends or a signal comes.
  void wait_for_event() const {
    std::vector<pollfd> fds = {{interrupt_.fd(), POLLIN, 0}};
    ranks_.add_poll_fds(fds);
    ::poll(fds.data(), fds.size(), kTickMs);
  }

  /// After the job, for those who ask the agents: until the time is up or a signal comes, which ends nothing else.
  void hold() {
    if (!options_.servers || options_.servers->hold_ns == 0) {
      return;
    }
    std::this_thread::sleep_for(kStoredWait);
    log(fmt::format("the job has ended; its agents answer for {} more, or until Ctrl-C",
                    format_duration(options_.servers->hold_ns)));
    const int64_t end_ns = monotonic_now_ns() + options_.servers->hold_ns;
    for (int64_t left_ns = 1; interrupt_.check() && left_ns > 0; left_ns = end_ns - monotonic_now_ns()) {
      pollfd signalled{interrupt_.fd(), POLLIN, 0};
      ::poll(&signalled, 1, static_cast<int>(std::min(left_ns, kNsPerSecond) / kNsPerMs) + 1);
    }
  }

  /// Ends everything in order, whatever `watched` is, and writes the results. Returns the first error.
  Status finish(const Status& watched) {
    Status first;
    const auto note = [&](Status status) {
      if (!status && first) {
        first = std::move(status);
      }
    };
    // Ranks are stopped before the faults are undone: a hanging job must not continue, or it would not count as a hang.
    note(ranks_.stop(nodes_));
    const int64_t ended_ns = utc_now_ns();
    note(injector_->finish());
    std::this_thread::sleep_for(kLastEventsWait);
    if (watched) {
      hold();
    }
    outcome_.warnings = agents_.stop();
    server_files_.reset();
    outcome_.recordings = agents_.recordings();
    outcome_.ranks = ranks_.outcomes();
    if (!watched) {
      outcome_.problem = watched.error().what;
    }
    outcome_.completed = outcome_.problem.empty();
    outcome_.truth_path = options_.out_dir + "/truth.json";
    const Truth truth = make_truth(ended_ns);
    for (const FaultTruth& fault : truth.faults) {
      if (fault.intervals.empty()) {
        outcome_.warnings.push_back(fmt::format("{} was never injected: the run ended before", fault.spec.text));
      }
    }
    note(write_file(outcome_.truth_path, to_json(truth)));
    note(network_->remove());
    return first;
  }

  Truth make_truth(int64_t ended_ns) const {
    Truth truth;
    truth.options = options_;
    truth.job_id = job_id_;
    truth.master = fmt::format("{}:{}", nodes_.front().address, kMasterPort);
    truth.started_ns = started_ns_;
    truth.first_step_ns = first_step_ns_;
    truth.ended_ns = ended_ns;
    truth.completed = outcome_.completed;
    truth.problem = outcome_.problem;
    truth.faults = injector_->truths();
    for (const VirtualNode& node : nodes_) {
      truth.nodes.push_back({node, outcome_.ranks[static_cast<size_t>(node.rank)], agents_.pid_of(node.number)});
    }
    return truth;
  }

  RunOptions options_;
  OwnFolder folder_;
  RunOutcome outcome_;
  std::string job_id_;
  int64_t started_ns_ = 0;
  int64_t first_step_ns_ = 0;

  InterruptGuard interrupt_;
  std::optional<LabLock> lock_;
  std::vector<VirtualNode> nodes_;  // by rank
  std::optional<Network> network_;
  std::optional<LeftoverNote> note_;
  std::vector<NodeFolder> folders_;
  std::optional<ServerFiles> server_files_;
  Agents agents_;
  Ranks ranks_;
  std::optional<Injector> injector_;
};

}  // namespace

std::string profiler_folder(const RunOptions& options) { return options.out_dir + "/profiler"; }

Result<RunOutcome> run(const RunOptions& options) {
  Run practice(options);
  return practice.perform();
}

}  // namespace stalltrace::lab
