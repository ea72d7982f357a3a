// SPDX-License-Identifier: Apache-2.0
// Texts of other processes without what is secret in them (plugin/wire/redaction.h). Pure.
#pragma once

#include <string>

namespace stalltrace {

/// A command line: arguments separated by '\0', or else by blanks.
void hide_secrets(std::string& command_line);
/// Variables, NAME=VALUE one a line: each value by its name, all of it.
void hide_secrets_of_variables(std::string& lines);

}  // namespace stalltrace
