// SPDX-License-Identifier: Apache-2.0
// The stacks of a job's ranks on this host, folded by location.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stacks/process_stacks.h"

namespace stalltrace::stacks {

/// A rank, or another process of interest, with its descendants (data-loader workers and others).
struct RankStacks {
  pid_t pid = 0;
  std::optional<int32_t> rank;  // nullopt: unknown
  std::string job;              // the launcher's name for it; may be empty
  Result<ProcessStacks> stacks;
  std::vector<RankStacks> children;
};

/// Ranks whose main threads are at the same location.
struct FoldedRanks {
  std::vector<int32_t> ranks;  // ascending
  std::string location;        // "in all_reduce at train.py:88"
};

struct FoldedJob {
  std::string job;
  std::vector<FoldedRanks> locations;  // largest group first
};

/// A thread's location in its Python program's own terms: the innermost frame outside installed packages, with the
/// package function that it called. Printable.
struct CallSite {
  std::string function;  // "all_reduce"; where nothing was called, the frame's own function
  std::string line;      // "train.py:88"; "train.py" where the number is not known

  bool operator==(const CallSite&) const = default;
};
/// nullopt: no Python frames.
std::optional<CallSite> call_site_of(const ThreadStack& thread);
/// "in all_reduce at train.py:88"
std::string to_text(const CallSite& site);

/// The thread's call site as text; without one, its native call: "in usleep, called by compute_step (train)"; without
/// that, the call it is blocked in: "in futex". Printable.
std::string location_of(const ThreadStack& thread);

/// Every job with several ranks among these; processes without a rank are left out.
std::vector<FoldedJob> fold_jobs(std::span<const RankStacks> ranks);

/// "7 ranks in all_reduce at train.py:88, rank 3 in load_batch at data.py:212"
std::string folded_line(std::span<const FoldedRanks> folded);

}  // namespace stalltrace::stacks
