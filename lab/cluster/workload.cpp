// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/workload.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/handle.h"
#include "base/process/command.h"
#include "base/process/subprocess.h"
#include "base/text.h"
#include "lab/cluster/artefacts/artefacts.h"
#include "lab/cluster/host/network.h"

namespace stalltrace::lab {
namespace {

/// torchrun's variables for a worker.
std::vector<std::string> torchrun_environment(const RankContext& context) {
  const VirtualNode& node = *context.node;
  return {
      fmt::format("RANK={}", node.rank),           fmt::format("LOCAL_RANK={}", node.local_rank),
      fmt::format("WORLD_SIZE={}", context.ranks), fmt::format("LOCAL_WORLD_SIZE={}", node.local_ranks),
      fmt::format("GROUP_RANK={}", node.number),   "MASTER_ADDR=" + context.master_address,
      fmt::format("MASTER_PORT={}", kMasterPort),  "TORCHELASTIC_RUN_ID=" + context.job_id,
  };
}

std::vector<std::string> with_options(std::vector<std::string> program, const RankContext& context) {
  program.insert(program.end(), {"--steps", std::to_string(context.steps), "--log", context.step_log});
  program.insert(program.end(), context.extra->begin(), context.extra->end());
  return program;
}

/// The interface that a rank is configured to use: a wrong one if a fault requires it.
std::string interface_of(const VirtualNode& node) {
  const std::string wrong = read_file(node.bug_prefix + "interface").value_or("");
  return wrong.empty() ? std::string(kInterface) : std::string(trim(wrong));
}

/// Adds the variable that names the workload's bug files.
void add_mistakes(const VirtualNode& node, std::vector<std::string>& environment) {
  environment.push_back("LAB_SLOW_FILE=" + node.slow_file);
  environment.push_back("LAB_BUGS=" + node.bug_prefix);
}

constexpr std::array<std::string_view, 11> kNcclBugs = {"skip", "mismatch", "disk",     "input", "copy",  "interface",
                                                        "leak", "order",    "exchange", "stage", "device"};

std::vector<std::string> nccl_argv(const RankContext& context) {
  return with_options({context.node->folder + "/bin/nccl-train"}, context);
}

std::vector<std::string> nccl_environment(const RankContext& context) {
  auto environment = torchrun_environment(context);
  environment.push_back("NCCL_SOCKET_IFNAME=" + interface_of(*context.node));
  add_mistakes(*context.node, environment);
  environment.push_back("LAB_SLOW_COPY=" + context.node->bug_prefix + "copy");
  if (context.node->local_ranks > 1) {
    environment.emplace_back("LAB_NCCL_SHM=1");  // only what leaves a node passes its interface
  }
  // precedes any libnccl or libcudart of the user's own environment
  environment.push_back("LD_LIBRARY_PATH=" + context.node->folder + "/lib");
  return environment;
}

constexpr std::array<std::string_view, 5> kMpiBugs = {"skip", "mismatch", "disk", "input", "interface"};

Status mpi_ready() {
  if (!has_artefact(kMpiTrain)) {
    return fail("this stalltrace was built without MPI",
                "install libopenmpi-dev, build again, or run another --workload", ErrorKind::kUnsupported);
  }
  if (!find_program("mpirun")) {
    return fail("the workload mpi needs the program 'mpirun'", "install the package openmpi-bin",
                ErrorKind::kUnsupported);
  }
  return {};
}

std::vector<std::string> mpi_argv(const RankContext& context) {
  return with_options({fmt::format("{}/{}", context.node->folder, kMpiTrain)}, context);
}

std::vector<std::string> mpi_environment(const RankContext& context) {
  std::vector<std::string> environment;
  add_mistakes(*context.node, environment);
  if (const std::string interface = interface_of(*context.node); interface != kInterface) {
    environment.push_back("OMPI_MCA_btl_tcp_if_include=" + interface);
  }
  if (context.node->local_ranks > 1) {  // its files are named by host, which the virtual nodes share, and local rank
    environment.push_back("OMPI_MCA_btl_vader_backing_directory=" + context.node->folder);
  }
  return environment;
}

/// mpirun, which reaches its hosts (by address) through a program that enters their namespaces; each rank with its own
/// node's program and files. TCP between hosts, shared memory (vader) on them; no binding to cores, since each daemon
/// assumes that it has the machine for itself.
std::vector<std::string> mpi_launcher(std::span<const RankContext> ranks) {
  const std::string network = "10.77.0.0/24";
  std::vector<std::string> argv = {"mpirun", "--allow-run-as-root", "--bind-to", "none"};
  const auto set = [&](std::string_view name, const std::string& value) {
    argv.insert(argv.end(), {"--mca", std::string(name), value});
  };
  set("plm_rsh_agent", fmt::format("{}/{}", ranks.front().node->folder, kNodeShell));
  set("plm_rsh_no_tree_spawn", "1");
  set("pml", "ob1");
  const int local_ranks = ranks.front().node->local_ranks;
  set("btl", local_ranks > 1 ? "vader,tcp,self" : "tcp,self");
  set("btl_tcp_if_include", network);
  set("oob_tcp_if_include", network);
  set("mpi_yield_when_idle", "1");
  for (const RankContext& context : ranks) {
    if (context.node->rank > 0) {
      argv.emplace_back(":");
    }
    const std::string slots = local_ranks > 1 ? fmt::format(":{}", local_ranks) : "";
    argv.insert(argv.end(), {"--host", context.node->address + slots, "-np", "1"});
    for (const std::string& variable : mpi_environment(context)) {
      argv.insert(argv.end(), {"-x", variable});
    }
    argv.insert(argv.end(), {"sh", "-c", R"(log=$1; shift; exec "$@" >"$log" 2>&1)", "rank", context.log});
    const auto program = mpi_argv(context);
    argv.insert(argv.end(), program.begin(), program.end());
  }
  return argv;
}

constexpr std::array<std::string_view, 8> kTorchBugs = {"skip",  "extra",     "mismatch", "disk",
                                                        "input", "interface", "leak",     "raise"};
/// The distribution's Python: another one in PATH may not have its PyTorch.
constexpr std::string_view kPython = "/usr/bin/python3";

Status torch_ready() {
  SpawnOptions probe;
  probe.argv = {std::string(kPython), "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"};
  const auto output = run_and_capture(probe, std::chrono::seconds(20));
  if (!output || !output->status.success()) {
    return fail("the workload torch needs PyTorch for /usr/bin/python3", "install the package python3-torch",
                ErrorKind::kUnsupported);
  }
  return {};
}

std::vector<std::string> torch_argv(const RankContext& context) {
  return with_options({std::string(kPython), fmt::format("{}/{}", context.node->folder, kTorchTrain)}, context);
}

std::vector<std::string> torch_environment(const RankContext& context) {
  auto environment = torchrun_environment(context);
  environment.push_back("GLOO_SOCKET_IFNAME=" + interface_of(*context.node));
  environment.emplace_back("OMP_NUM_THREADS=1");  // as torchrun sets it
  add_mistakes(*context.node, environment);
  return environment;
}

constexpr std::array kRows = {
    WorkloadRow{"nccl", "a training-like loop over the lab's own CPU implementation of NCCL", nccl_argv,
                nccl_environment, kNcclBugs},
    WorkloadRow{"mpi", "the same over the distribution's OpenMPI, started by mpirun", mpi_argv, mpi_environment,
                kMpiBugs, mpi_ready, mpi_launcher},
    WorkloadRow{"torch", "PyTorch's DistributedDataParallel on Gloo, from the distribution's packages", torch_argv,
                torch_environment, kTorchBugs, torch_ready},
};

/// Faults, or kinds of them, that need a workload with that bug.
struct Mistake {
  std::string_view cause;
  std::string_view parameter;  // empty: any kind of the fault
  std::string_view choice;
  std::string_view bug;
};
constexpr std::array kMistakes = {
    Mistake{"slow_receiver", "", "", "copy"},
    Mistake{"slow_device", "", "", "device"},
    Mistake{"disk_io", "", "", "disk"},
    Mistake{"slow_input", "", "", "input"},
    Mistake{"missing_collective", "doing", "stage", "stage"},
    Mistake{"missing_collective", "doing", "send", "exchange"},
    Mistake{"missing_collective", "doing", "order", "order"},
    Mistake{"mismatched_collective", "what", "extra", "extra"},
    Mistake{"dead_rank", "how", "memory", "leak"},
    Mistake{"dead_rank", "how", "exception", "raise"},
    Mistake{"dead_rank", "how", "exit", "raise"},
};

}  // namespace

Status check_fault(const WorkloadRow& workload, const FaultSpec& spec) {
  for (const Mistake& mistake : kMistakes) {
    const bool asked =
        mistake.cause == spec.cause && (mistake.parameter.empty() || spec.choice(mistake.parameter) == mistake.choice);
    if (asked && std::ranges::find(workload.bugs, mistake.bug) == workload.bugs.end()) {
      return fail(fmt::format("fault '{}': the workload {} can't be made to do that", spec.text, workload.name),
                  "choose another fault or --workload", ErrorKind::kUsage);
    }
  }
  return {};
}

std::span<const WorkloadRow> workload_rows() { return kRows; }

const WorkloadRow* find_workload(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &WorkloadRow::name);
  return row == kRows.end() ? nullptr : &*row;
}

int64_t StepCounter::count() {
  const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[16384];
  ssize_t got = 0;
  while (fd && (got = ::pread(fd.get(), buffer, sizeof buffer, offset_)) > 0) {
    steps_ += std::count(buffer, buffer + got, '\n');
    offset_ += got;
  }
  return steps_;
}

}  // namespace stalltrace::lab
