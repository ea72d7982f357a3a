// SPDX-License-Identifier: Apache-2.0
// The state of a cluster made by hand, kept between two calls of the command line. One JSON file, schema 1.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/cluster/injection/fault_table.h"

namespace stalltrace::lab {

struct HandAppliedFault {
  std::string text;  // as asked for
  std::vector<UndoAction> undo;
};

struct ClusterState {
  static constexpr int kSchema = 1;
  int ranks = 0;
  int next_number = 0;  // of a fault
  std::vector<HandAppliedFault> faults;
};

std::string to_json(const ClusterState& state);
Result<ClusterState> cluster_state_from_json(std::string_view text);

/// Path of the state file.
std::string state_path();
/// ErrorKind::kNotFound if no cluster is up.
Result<ClusterState> load_state();
Status save_state(const ClusterState& state);

}  // namespace stalltrace::lab
