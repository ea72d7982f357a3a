// SPDX-License-Identifier: Apache-2.0
// What a report of a job that stands still says, without its numbers: two with one digest are the same to a reader.
// Pure.
#pragma once

#include <string>

#include "model/finding.h"

namespace stalltrace::cli {

/// A short text that is the same for two reports if their findings have the same causes, severities, culprits and
/// links, and Python stacks for the same ones of them. Empty without findings.
std::string digest_of(const Report& report);

}  // namespace stalltrace::cli
