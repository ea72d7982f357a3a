// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/network_tests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <optional>

#include "capture/discover/identity.h"
#include "cli/fleet/preflight/collectives_program.h"
#include "cli/fleet/preflight/own_rank.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "fleet/node_list.h"
#include "fleet/resolve.h"
#include "preflight/peers/launch_output.h"
#include "preflight/preflight.h"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace stalltrace::cli {
namespace {

constexpr std::chrono::seconds kNamesLimit{5};
constexpr int64_t kSmallestCollective = 8;
constexpr int64_t kLargestCollective = 4LL << 30;

std::map<std::string, std::vector<std::string>> look_up(const std::vector<std::string>& names) {
  std::vector<fleet::NodeAddress> nodes;
  nodes.reserve(names.size());
  for (const std::string& name : names) {
    nodes.push_back({.host = name});
  }
  fleet::resolve(nodes, kNamesLimit);
  std::map<std::string, std::vector<std::string>> found;
  for (fleet::NodeAddress& node : nodes) {
    found[node.host] = std::move(node.addresses);
  }
  return found;
}

/// Where rank 0 is: as torchrun says it, or the first node of Slurm's job, where srun starts it.
std::string master_of(const Environment& environment) {
  const std::string given(value_of(environment, "MASTER_ADDR"));
  if (!given.empty() || value_of(environment, "SLURM_JOB_NODELIST").empty()) {
    return given;
  }
  const auto nodes = fleet::parse_node_list("slurm");
  return nodes && !nodes->empty() ? nodes->front().host : "";
}

/// Of a server's environment: what chooses the interface that is tested. The rest is not that of a job.
Environment settings_of_server(const Environment& environment) {
  Environment chosen;
  for (const std::string name : {"NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY"}) {
    if (const auto found = environment.find(name); found != environment.end()) {
      chosen.insert(*found);
    }
  }
  return chosen;
}

}  // namespace

Environment own_environment() {
  Environment environment;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view entry = *at;
    if (const size_t equals = entry.find('='); equals != std::string_view::npos) {
      environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return environment;
}

Result<bool> take_part_in_launch(const preflight::Launch& launch, const Environment& environment) {
  const bool server = !launch.secret.empty();
  const Environment settings = server ? settings_of_server(environment) : environment;
  std::optional<preflight::CollectivesHelper> collectives;
  if (launch.collectives.wanted) {
    auto started = start_collectives_program(launch.collectives);
    collectives.emplace(started ? *std::move(started) : preflight::CollectivesHelper(started.error().what));
  }
  ST_ASSIGN(
      const preflight::HostReport report,
      preflight::check_this_host(settings, {}, server ? preflight::StartedAs::kServer : preflight::StartedAs::kJob));
  return preflight::take_part(launch, report, settings,
                              {.resolve = look_up,
                               .confine = [] { confine_to_reading({}, "", Makes::kFile, Network::kConnects); },
                               .collectives = collectives ? &*collectives : nullptr});
}

Result<bool> coordinate_launch(const preflight::Launch& launch, const Environment& environment,
                               const LaunchReporter& reporter) {
  ST_ASSIGN(preflight::Coordinator coordinator, preflight::Coordinator::open(launch));
  ST_ASSIGN(OwnRank own, OwnRank::start([&] { return take_part_in_launch(launch, environment); }));
  confine_to_reading({});
  const auto pass_on = [&](const std::optional<Error>& failure) {
    if (failure) {
      reporter.rank_failed(*failure);
    }
  };
  auto results = coordinator.run([&](const std::string& step) {
    pass_on(own.failure());
    reporter.announce(step);
  });
  pass_on(own.failure());
  if (!results) {
    return std::unexpected(std::move(results.error()));
  }
  results->launch_checks.insert(results->launch_checks.begin(), reporter.known.begin(), reporter.known.end());
  const preflight::Judgement judgement = preflight::judge(*results);
  ST_TRY(reporter.report(*results, judgement));
  coordinator.finish(judgement.failed());
  pass_on(own.wait());
  return judgement.failed();
}

std::vector<Flag> NetworkTests::flags() {
  return {
      switch_flag("--network",
                  "in every process of a launch (torchrun, mpirun, srun): test the network between its nodes", &given_),
      integer_flag("--port", "PORT", "rank 0 listens here for the other ranks", 1, UINT16_MAX, &port_),
      duration_flag("--wait", "how long to wait for all ranks", &launch_.wait_ns),
      integer_flag("--rounds", "N", "of many nodes: how many others each one is tested with", 1, 65'536,
                   &launch_.most_rounds),
      duration_flag("--test-time", "how long a node sends to another one, at most", &launch_.flow.time_ns),
      size_limit_flag("--test-size", "how much it sends, at most", &launch_.flow.bytes),
      integer_flag("--max-mbit", "N", "how fast it sends, at most; 0: as fast as TCP allows", 0, 1'000'000,
                   &launch_.flow.mbit),
      switch_flag("--collectives",
                  "with --network, in one process for each GPU: let the job's NCCL make collectives of all ranks, and "
                  "measure them",
                  &launch_.collectives.wanted),
      text_flag("--library", "FILE", "with --collectives: the job's libnccl.so.2, where the linker does not find it",
                &launch_.collectives.library),
      size_limit_flag("--max-size", "with --collectives: the largest size, at most 4g",
                      &launch_.collectives.max_bytes)};
}

Result<preflight::Launch> NetworkTests::limits() const {
  constexpr int64_t kLongestTest = 60'000'000'000;
  if (launch_.flow.bytes <= 0 || launch_.flow.time_ns > kLongestTest) {
    return fail("--test-size needs a limit, and --test-time is at most 60s", "these tests are not to flood a network",
                ErrorKind::kUsage);
  }
  const preflight::CollectiveLimits& collectives = launch_.collectives;
  if (collectives.max_bytes < kSmallestCollective || collectives.max_bytes > kLargestCollective) {
    return fail("--max-size is from 8 bytes to 4 GiB", "the GPU has two buffers of that size", ErrorKind::kUsage);
  }
  if (!collectives.library.empty() && !collectives.wanted) {
    return fail("--library names the library for --collectives", "give both", ErrorKind::kUsage);
  }
  preflight::Launch launch = launch_;
  launch.port = static_cast<uint16_t>(port_);
  return launch;
}

Status NetworkTests::read_launch(const Environment& environment) {
  ST_ASSIGN(launch_, limits());
  const capture::JobIdentity identity = capture::job_identity(environment);
  launch_.master = master_of(environment);
  if (!identity.rank || !identity.world_size || launch_.master.empty()) {
    return fail(!identity.rank || !identity.world_size
                    ? "this is not a process of a launch: it has no rank, or no number of ranks"
                    : "it is not known where rank 0 runs",
                "start it with torchrun --no_python, mpirun -x MASTER_ADDR=HOST or srun, or set RANK, WORLD_SIZE and "
                "MASTER_ADDR for each process",
                ErrorKind::kUsage);
  }
  launch_.rank = *identity.rank;
  launch_.world_size = *identity.world_size;
  launch_.job = identity.job_id;
  launch_.name = capture::node_name("");
  launch_.masters = look_up({launch_.master})[launch_.master];
  if (launch_.masters.empty()) {
    return fail(fmt::format("rank 0's host {} is not known here, on {}", launch_.master, launch_.name),
                "add it to /etc/hosts or the name servers, or set MASTER_ADDR to its address");
  }
  return {};
}

Result<int> NetworkTests::run(Console& console, const Environment& environment, bool json) {
  ST_TRY(read_launch(environment));
  if (launch_.rank == 0) {
    return coordinate(console, environment, json);
  }
  ST_ASSIGN(const bool failed, take_part_in_launch(launch_, environment));
  return failed ? kExitPreflight : kExitDone;
}

Result<int> NetworkTests::coordinate(Console& console, const Environment& environment, bool json) {
  if (!preflight::has_address(launch_.masters)) {
    return fail(fmt::format("MASTER_ADDR {} is {}, no address of this host, where rank 0 runs", launch_.master,
                            fmt::join(launch_.masters, ", ")),
                "set it to the host of rank 0, and correct a wrong line in /etc/hosts");
  }
  const LaunchReporter reporter{
      .announce = [&](const std::string& line) { console.note("preflight: " + line); },
      .rank_failed = [&](const Error& error) { console.error(error); },
      .report =
          [&](const preflight::LaunchResults& results, const preflight::Judgement& judgement) {
            console.out(json ? preflight::launch_json(results, judgement) : preflight::launch_text(results, judgement));
            return console.finish();  // before another rank ends with 4, on which launchers kill the rest
          }};
  ST_ASSIGN(const bool failed, coordinate_launch(launch_, environment, reporter));
  return failed ? kExitPreflight : kExitDone;
}

}  // namespace stalltrace::cli
