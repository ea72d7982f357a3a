// SPDX-License-Identifier: Apache-2.0
// One function per fault; fault_table.cpp lists them.
#pragma once

#include "lab/cluster/fault_table.h"

namespace stalltrace::lab {

FaultRow packet_loss_row();
FaultRow late_rank_row();
FaultRow cpu_contention_row();
FaultRow process_stopped_row();

}  // namespace stalltrace::lab
