// SPDX-License-Identifier: Apache-2.0
#include "base/process/secrets.h"

#include <algorithm>

#include "plugin/wire/redaction.h"

namespace stalltrace {

void hide_secrets(std::string& command_line) {
  command_line.resize(redaction::redact_command_line(command_line.data(), command_line.size()));
}

void hide_secrets_of_variables(std::string& lines) {
  std::ranges::replace(lines, '\n', '\0');
  lines += '\0';  // separates even a single variable from others
  lines += '\0';
  hide_secrets(lines);
  lines.resize(lines.size() - 2);
  std::ranges::replace(lines, '\0', '\n');
}

}  // namespace stalltrace
