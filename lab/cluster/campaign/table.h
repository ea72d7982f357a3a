// SPDX-License-Identifier: Apache-2.0
// The figures of a campaign: rate of correct draws, wrong reports, delay, and accuracy of the cost. Pure; any thread.
#pragma once

#include <span>
#include <string>

#include "lab/cluster/campaign/result.h"

namespace stalltrace::lab {

/// Tables in Markdown, for docs/accuracy.md: by kind against the target, what is counted apart, by setting, fault by
/// fault where a draw has two, the confusion matrix, and the reliability of confidence. Jobs that fail without a
/// tracer, and costless faults of which nothing false is reported, are counted, but in no rate.
std::string matrix_to_markdown(std::span<const DrawResult> results);

/// The same figures for programs. docs/lab.md.
std::string matrix_to_json(std::span<const DrawResult> results);

}  // namespace stalltrace::lab
