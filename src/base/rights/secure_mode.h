// SPDX-License-Identifier: Apache-2.0
// A program with file capabilities or the set-user-ID bit has rights that the user who starts it lacks. Then that
// user's environment and some options may not choose the files that it opens with these rights. The kernel says so by
// AT_SECURE (getauxval(3)).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stalltrace {

/// True if this program was given rights that its user lacks.
bool in_secure_mode();

/// The value of a variable that chooses a file; null if it is not set, and always in secure mode.
const char* trusted_variable(const char* name);

/// Of an environment ("NAME=value" each), the names of the variables that secure mode ignores: STALLTRACE_BTF and
/// TMPDIR. PATH and LD_LIBRARY_PATH are ignored as well, but are set for other programs: they are not worth a line.
std::vector<std::string> ignored_in_secure_mode(const char* const* environment);

/// The line about them for standard error; empty if there are none, or not in secure mode.
std::string secure_mode_line(bool secure, const char* const* environment);

}  // namespace stalltrace
