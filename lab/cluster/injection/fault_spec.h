// SPDX-License-Identifier: Apache-2.0
// A fault as text: "packet_loss:rank=2,percent=2,start=2s". fault_rows() (fault_table.h) lists the causes and their
// doses; this part only parses and validates text. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "lab/cluster/faults/fault_row.h"

namespace stalltrace::lab {

/// Parses "CAUSE:key=value,..." or "none". The error names the problem and the cause's parameters.
Result<FaultSpec> parse_fault(std::string_view text);

/// One line per cause with its parameters, defaults and an example: for --help and the documentation.
std::string fault_help();

}  // namespace stalltrace::lab
