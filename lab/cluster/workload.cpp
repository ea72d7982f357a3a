// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/workload.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/handle.h"
#include "lab/cluster/network.h"

namespace stalltrace::lab {
namespace {

/// What torchrun gives a worker, one worker per node.
std::vector<std::string> torchrun_environment(const RankContext& context) {
  return {
      fmt::format("RANK={}", context.node->rank),       "LOCAL_RANK=0",
      fmt::format("WORLD_SIZE={}", context.ranks),      "LOCAL_WORLD_SIZE=1",
      fmt::format("GROUP_RANK={}", context.node->rank), "MASTER_ADDR=" + context.master_address,
      fmt::format("MASTER_PORT={}", kMasterPort),       "TORCHELASTIC_RUN_ID=" + context.job_id,
  };
}

std::vector<std::string> nccl_argv(const RankContext& context) {
  std::vector<std::string> argv = {context.node->folder + "/bin/nccl-train", "--steps", std::to_string(context.steps),
                                   "--log", context.step_log};
  argv.insert(argv.end(), context.extra->begin(), context.extra->end());
  return argv;
}

std::vector<std::string> nccl_environment(const RankContext& context) {
  auto environment = torchrun_environment(context);
  environment.push_back(fmt::format("NCCL_SOCKET_IFNAME={}", kInterface));
  environment.push_back("LAB_SLOW_FILE=" + context.node->slow_file);
  environment.push_back("LAB_BUGS=" + context.node->bug_prefix);
  environment.push_back("LAB_SLOW_COPY=" + context.node->bug_prefix + "copy");
  // before any libnccl or libcudart that the user's own environment leads to
  environment.push_back("LD_LIBRARY_PATH=" + context.node->folder + "/lib");
  return environment;
}

constexpr std::array kRows = {
    WorkloadRow{"nccl", "a training-like loop over the lab's own CPU implementation of NCCL", nccl_argv,
                nccl_environment},
};

}  // namespace

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
