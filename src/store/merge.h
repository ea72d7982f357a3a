// SPDX-License-Identifier: Apache-2.0
// One recording out of many: the same schema, every node's rows under its own ids.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/files/own_folder.h"
#include "base/result.h"

namespace stalltrace::store {

struct MergeOptions {
  /// Called after each table of each input: inputs done, of how many. For progress.
  std::function<void(size_t done, size_t total)> progress;
  Readers readers = Readers::kOwner;
};

struct MergeSummary {
  size_t nodes = 0;
  size_t duplicate_nodes = 0;   // node runs found in more than one input and kept once
  size_t renumbered_nodes = 0;  // node runs whose id another run had
  uint64_t rows = 0;
};

/// Merges `inputs` into a new file at `output`. The inputs are only read, and may still be written by a tracer.
/// The output appears whole and stored or not at all, also where this process is killed; an existing one is never
/// overwritten. Findings are not merged: they were drawn from a part of the evidence.
Result<MergeSummary> merge_recordings(std::span<const std::string> inputs, const std::string& output,
                                      const MergeOptions& options = {});

}  // namespace stalltrace::store
