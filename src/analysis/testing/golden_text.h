// SPDX-License-Identifier: Apache-2.0
// The texts of findings in one golden file: other tests assert causes, locations and numbers, not sentences.
#pragma once

#include <map>
#include <string>

#include "model/finding.h"

namespace stalltrace::analysis {

/// Compares all texts of `finding` with the section `name` of testing/finding_texts.txt. With
/// STALLTRACE_UPDATE_GOLDEN=1 the section is rewritten instead; review the diff.
void expect_golden_text(const std::string& name, const Finding& finding);

/// The sections of the file, by name.
std::map<std::string, std::string> golden_texts();

}  // namespace stalltrace::analysis
