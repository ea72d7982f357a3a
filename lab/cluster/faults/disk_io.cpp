// SPDX-License-Identifier: Apache-2.0
// Waiting for disk: the workload of one rank writes a checkpoint in each step and waits until it is on disk.
#include <linux/magic.h>
#include <sys/vfs.h>

#include <array>

#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {
namespace {

constexpr std::array kParameters = {
    FaultParameter{"mbytes", "32", 1, 4096, {}, "written and flushed before each step's collectives"},
};

/// A file system in memory has no disk waits.
bool is_in_memory(const std::string& folder) {
  struct statfs system {};
  return ::statfs(folder.c_str(), &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

Result<AppliedFault> apply(const FaultSpec& spec, const FaultContext& context) {
  if (is_in_memory(context.node().folder)) {
    return fail("disk_io: " + context.node().folder + " is in memory, there is no disk to wait for",
                "give a folder on a disk with --out");
  }
  return apply_bug(context.node(), "disk", spec.choice("mbytes"));
}

}  // namespace

FaultRow disk_io_row() {
  return {"disk_io",
          "a rank waits for its disk before each step's collectives",
          "disk_io:rank=1,mbytes=32",
          kParameters,
          "",
          apply};
}

}  // namespace stalltrace::lab
