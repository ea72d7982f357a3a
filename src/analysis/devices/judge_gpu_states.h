// SPDX-License-Identifier: Apache-2.0
// What `nvidia-smi -q` and `dcgmi health -c` show of GPUs: device_error for what has to be repaired, slow_device for
// clocks that heat or the power supply keep low. It shows a moment, and names processes by number, not by host.
#pragma once

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds findings and notes on the newest report of each file to the report, whose other findings are known.
Status add_gpu_states(EventSource& source, Report& report);

}  // namespace stalltrace::analysis
