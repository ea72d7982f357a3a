// SPDX-License-Identifier: Apache-2.0
// Merges many recordings into one: the same schema, every node's rows under their own ids.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::store {

struct MergeOptions {
  /// Called after each table of each input, to show progress: number of finished inputs, total.
  std::function<void(size_t done, size_t total)> progress;
  Readers readers = Readers::kOwner;
};

struct MergeSummary {
  size_t nodes = 0;
  size_t duplicate_nodes = 0;   // node runs found in several inputs and kept once
  size_t renumbered_nodes = 0;  // node runs whose id was already in use
  uint64_t rows = 0;
};

/// Merges `inputs` into a new file at `output`. The inputs are only read; a tracer may still write them. The output
/// appears complete and synced or not at all, even if this process is killed; an existing file is never overwritten.
/// Findings are not merged: each input's findings used only a part of the evidence. Errors name the file that was to be
/// made.
Result<MergeSummary> merge_recordings(std::span<const std::string> inputs, const std::string& output,
                                      const MergeOptions& options = {});

}  // namespace stalltrace::store
