// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/injection/fault_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/hash.h"
#include "lab/cluster/faults/faults.h"

namespace stalltrace::lab {

std::span<const FaultRow> fault_rows() {
  static const std::array kRows = {
      packet_loss_row(),        host_drop_row(),
      fabric_errors_row(),      reordering_row(),
      slow_link_row(),          partition_row(),
      slow_receiver_row(),      disk_io_row(),
      init_failure_row(),       mtu_blackhole_row(),
      connection_reset_row(),   late_rank_row(),
      slow_device_row(),        cpu_contention_row(),
      process_stopped_row(),    dead_rank_row(),
      missing_collective_row(), mismatched_collective_row(),
      slow_input_row(),  // outside of the catalogue
  };
  return kRows;
}

const FaultRow* find_fault_row(std::string_view cause) {
  const auto rows = fault_rows();
  const auto row = std::ranges::find(rows, cause, &FaultRow::cause);
  return row == rows.end() ? nullptr : &*row;
}

Result<int> choose_rank(const FaultSpec& spec, int ranks, uint64_t seed, int ranks_per_node) {
  if (spec.node && *spec.node >= ranks / ranks_per_node) {
    return fail(fmt::format("fault '{}': there is no node {} among {}", spec.text, *spec.node, ranks / ranks_per_node),
                "nodes count from 0", ErrorKind::kUsage);
  }
  const int rank =
      spec.node ? *spec.node * ranks_per_node
                : spec.rank.value_or(static_cast<int>(splitmix64_text(spec.text, seed) % static_cast<uint64_t>(ranks)));
  for (const int named : {rank, static_cast<int>(spec.has("peer") ? spec.number("peer") : 0)}) {
    if (named >= ranks) {
      return fail(fmt::format("fault '{}': there is no rank {} among {}", spec.text, named, ranks),
                  "ranks count from 0", ErrorKind::kUsage);
    }
  }
  return rank;
}

}  // namespace stalltrace::lab
