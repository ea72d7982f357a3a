// SPDX-License-Identifier: Apache-2.0
#include "autopsy/host/read_communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "stacks/memory/memory.h"
#include "stacks/nccl/find_communicators.h"
#include "stacks/nccl/written_memory.h"

namespace stalltrace::autopsy {
namespace {

/// Libraries that hold NCCL's code: its own, and PyTorch's where NCCL is linked into it.
constexpr std::array<std::string_view, 2> kLibraries{"libnccl.so", "libtorch_cuda"};

bool has_nccl(const Procfs& procfs, pid_t pid) {
  const auto mappings = procfs.executable_mappings(pid);
  return mappings && std::ranges::any_of(*mappings, [](const MappedFile& file) {
           const std::string_view name = std::string_view(file.path).substr(file.path.rfind('/') + 1);
           return std::ranges::any_of(kLibraries, [&](std::string_view library) { return name.starts_with(library); });
         });
}

void read_again(stacks::Memory& memory, const RankState& before, RankState& rank) {
  for (const stacks::NcclCommunicator& known : before.communicators) {
    if (auto now = stacks::read_again(memory, known)) {
      rank.communicators.push_back(std::move(*now));
    }
  }
  rank.communicators_problem = before.communicators_problem;
}

void search(const Procfs& procfs, stacks::Memory& memory, RankState& rank) {
  const auto written = stacks::written_memory(procfs, rank.pid);
  if (!written) {
    rank.communicators_problem = written.error().what;
    return;
  }
  stacks::CommunicatorSearch found = stacks::find_communicators(memory, written->ranges);
  rank.communicators = std::move(found.found);
  if (!found.whole || !written->whole) {
    rank.communicators_problem =
        fmt::format("only a part of process {}'s memory was searched for NCCL's communicators", rank.pid);
  }
}

}  // namespace

void read_communicators(const Procfs& procfs, const RankState* before, RankState& rank) {
  const bool wanted = before != nullptr ? !before->communicators.empty() || !before->communicators_problem.empty()
                                        : has_nccl(procfs, rank.pid);
  if (!wanted) {
    return;
  }
  auto memory = stacks::ProcessMemory::open(procfs, rank.pid);
  if (!memory) {
    rank.communicators_problem = memory.error().what;
    return;
  }
  if (before != nullptr) {
    read_again(*memory, *before, rank);
  } else {
    search(procfs, *memory, rank);
  }
}

}  // namespace stalltrace::autopsy
