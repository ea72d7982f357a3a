// SPDX-License-Identifier: Apache-2.0
// Where a culprit was when py-spy was run on it.
#pragma once

#include <string>
#include <vector>

#include "model/finding.h"
#include "model/source.h"

namespace stalltrace::analysis {

/// Adds to each finding whose culprit's process a py-spy dump shows where its main thread was. A dump names no host:
/// two files with one process number are of two hosts, or of two moments, and then nothing is added.
Status add_dumped_stacks(EventSource& source, std::vector<Finding>& findings, std::vector<std::string>& notes);

}  // namespace stalltrace::analysis
