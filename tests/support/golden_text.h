// SPDX-License-Identifier: Apache-2.0
// Sentences that tests expect, in golden files: a rewritten sentence changes one file, and its diff is reviewed there.
// Tests assert codes, names and numbers themselves.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stalltrace::golden {

/// What differs between runs -> what stands for it: {{folder, "FOLDER"}}. Applied in this order, to all occurrences.
using Masks = std::vector<std::pair<std::string, std::string>>;

/// Compares `text` with the next section of the current test in its folder's testdata/texts.txt (src/ROOM, lab, plugin,
/// tests): the first text that a test expects has the section "Suite.Test", the second "Suite.Test 2". Tests with
/// parameters expect the same text for all of them. With
/// STALLTRACE_UPDATE_GOLDEN=1 the section is written instead; review the diff. Call it in the test's own process.
void expect_text(std::string_view text, const Masks& masks = {});

/// The same for a section `name` of the file at `path`, which is relative to the root of the sources.
void expect_section(const std::string& path, const std::string& name, const std::string& text);

/// The sections of such a file, by name: lines after "== NAME". Empty lines between sections are not part of them.
std::map<std::string, std::string> sections(const std::string& path);

}  // namespace stalltrace::golden
