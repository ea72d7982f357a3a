// SPDX-License-Identifier: Apache-2.0
// Redaction of other processes' texts (plugin/wire/redaction.h). Pure.
#pragma once

#include <string>

namespace stalltrace {

/// Redacts a command line: arguments separated by '\0', else by blanks.
void hide_secrets(std::string& command_line);
/// Redacts variables, one NAME=VALUE per line: a secret variable's whole value.
void hide_secrets_of_variables(std::string& lines);

}  // namespace stalltrace
