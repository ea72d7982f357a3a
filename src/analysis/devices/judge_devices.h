// SPDX-License-Identifier: Apache-2.0
// device_error: what kernel logs say of GPUs and of PCIe, by device, joined to the ranks whose processes they name; and
// ranks that the kernel ended for lack of memory. What is outside of the job's time, and what lost nothing, is a note.
#pragma once

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds findings and notes on the kernel messages of `source` to the report, whose other findings are known. Returns
/// how many findings it has put before them.
Result<size_t> add_device_errors(EventSource& source, Report& report);

}  // namespace stalltrace::analysis
