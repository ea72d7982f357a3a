// SPDX-License-Identifier: Apache-2.0
// The words of a command line, sorted by form: flags with their values, plain words, and the words after "--". Uses
// only the flags' names and whether they take a value; command_line.h interprets the values. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::cli {

/// The properties of a flag that are needed to find its value.
struct FlagShape {
  std::string_view name;  // "--out"
  bool takes_value = false;
  std::string value_form;  // how to write the value; printed if it was left out
};

struct Args {
  struct Given {
    size_t flag = 0;    // position among the shapes
    std::string value;  // empty for a flag without a value
  };
  struct Word {
    std::string text;
    size_t position = 0;  // index among the typed words
  };
  std::vector<Given> given;  // in the order typed
  std::vector<Word> plain;   // neither flags nor values, before "--"
  bool dashes = false;       // there was a "--"
  std::vector<std::string> after_dashes;
  bool help = false;  // --help or -h stood before "--"
};

/// Accepts `--flag value`, `--flag=value`, `--switch`, plain words anywhere between them, and "--", which ends the
/// flags. A value may begin with one dash ("-5"), but not with two, except after "=". A lone "-" is a plain word.
/// Errors (kUsage): an unknown flag (with a similar one that may be meant), a missing value, a value for a switch. With
/// --help or -h anywhere before "--" there are no errors. With `takes_plain` false the subcommand takes no plain word,
/// and the first one ends the parsing: the words after it probably belong to another program.
Result<Args> split_args(std::span<const std::string> words, std::span<const FlagShape> shapes, bool takes_plain = true);

}  // namespace stalltrace::cli
