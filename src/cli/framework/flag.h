// SPDX-License-Identifier: Apache-2.0
// Flags and arguments are data: a row has a name and a help text and is bound to a member of its subcommand. The parser
// (command_line.cpp) and the help page (help.cpp) use the same rows; shell completion could use them as well. A row
// borrows its target and must not outlive the subcommand. Defaults on the help page are the targets' values at the
// creation of the row.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::cli {

struct Flag {
  enum class Kind : uint8_t {
    kSwitch,     // --json
    kValue,      // --out FILE, at most once
    kRepeated,   // --fault SPEC, any number of times
    kArgument,   // FILE, required unless `optional`
    kArguments,  // FILE..., at least one unless `optional`
    kCommand,    // -- COMMAND ..., everything after the double dash
  };
  Kind kind = Kind::kSwitch;
  std::string name;        // "--out"; of an argument what the help page calls it: "FILE"
  std::string value_name;  // "FILE"; empty for switches and arguments
  std::string help;
  std::string value_form;    // how a TIME or a SIZE is written: "500ms, 20s or 2m"; empty: needs no explanation
  std::string default_text;  // empty: none
  /// Takes one value as typed; an error is the user's (exit code 2).
  std::function<Status(std::string_view)> assign;
  bool required = false;      // of flags, and of COMMAND
  bool optional = false;      // of arguments; one before a required one is left out first
  std::string when_followed;  // remedy if plain words follow the last argument; empty: the help page
  /// Chooses a file that is opened or loaded with the program's own rights, or trusts one: refused in secure mode.
  bool privileged = false;
  /// Internal: works, but is not on the help page.
  bool hidden = false;

  [[nodiscard]] bool is_argument() const { return kind >= Kind::kArgument; }
};

Flag switch_flag(std::string name, std::string help, bool* target);
/// Refuses an empty text: it usually comes from an unset shell variable.
Flag text_flag(std::string name, std::string value_name, std::string help, std::string* target);
Flag texts_flag(std::string name, std::string value_name, std::string help, std::vector<std::string>* target);
/// One of `choices`; the target's value is the default.
Flag choice_flag(std::string name, std::string help, std::vector<std::string> choices, std::string* target);
/// A whole number within [low, high].
Flag integer_flag(std::string name, std::string value_name, std::string help, int64_t low, int64_t high,
                  int64_t* target);
/// --pid 12 --pid 34, also --pid 12,34
Flag pids_flag(std::string name, std::string help, std::vector<int32_t>* target);
/// --rank 0 --rank 3, also --rank 0,3
Flag ranks_flag(std::string name, std::string help, std::vector<int32_t>* target);
/// "500ms", "20s", "2m"; must be positive.
Flag duration_flag(std::string name, std::string help, int64_t* target_ns);
Flag duration_flag(std::string name, std::string help, std::optional<int64_t>* target_ns);
/// "500m", "2g"; "none" and "0" set 0: no limit.
Flag size_limit_flag(std::string name, std::string help, int64_t* target_bytes);

Flag argument(std::string name, std::string help, std::string* target);
Flag arguments(std::string name, std::string help, std::vector<std::string>* target);
Flag command_argument(std::string help, std::vector<std::string>* target);

Flag required(Flag flag);
Flag hidden(Flag flag);
Flag privileged(Flag flag);
Flag optional(Flag flag);

}  // namespace stalltrace::cli
