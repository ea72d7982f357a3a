// SPDX-License-Identifier: Apache-2.0
// One function per fault; fault_table.cpp lists them.
#pragma once

#include "lab/cluster/faults/fault_row.h"

namespace stalltrace::lab {

FaultRow packet_loss_row();
FaultRow host_drop_row();
FaultRow fabric_errors_row();
FaultRow reordering_row();
FaultRow late_rank_row();
FaultRow slow_device_row();
FaultRow cpu_contention_row();
FaultRow process_stopped_row();
FaultRow slow_link_row();
FaultRow partition_row();
FaultRow mtu_blackhole_row();
FaultRow connection_reset_row();
FaultRow slow_receiver_row();
FaultRow disk_io_row();
FaultRow init_failure_row();
FaultRow slow_input_row();
FaultRow dead_rank_row();
FaultRow missing_collective_row();
FaultRow mismatched_collective_row();

/// Switches on the workload's bug `name`, of this kind.
Result<AppliedFault> apply_bug(const VirtualNode& node, std::string_view name, std::string_view kind);

}  // namespace stalltrace::lab
