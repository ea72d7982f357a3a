// SPDX-License-Identifier: Apache-2.0
// The words of a command line sorted by their shape: flags with their values, plain words, and what follows "--".
// Knows which flags there are and whether one takes a value; gives no value a meaning (command_line.h does). Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stalltrace::cli {

/// What has to be known of a flag to find its value.
struct FlagShape {
  std::string_view name;  // "--out"
  bool takes_value = false;
  std::string value_form;  // how to write the value; printed where it was left out
};

struct Args {
  struct Given {
    size_t flag = 0;    // position among the shapes
    std::string value;  // empty for a flag that takes none
  };
  struct Word {
    std::string text;
    size_t position = 0;  // among the words that were typed
  };
  std::vector<Given> given;  // in the order typed
  std::vector<Word> plain;   // neither flags nor values, before "--"
  bool dashes = false;       // there was a "--"
  std::vector<std::string> after_dashes;
  bool help = false;  // --help or -h stood before "--"
};

/// `--flag value`, `--flag=value`, `--switch`, plain words anywhere between them, and "--", after which nothing is
/// looked at. A value may begin with one dash ("-5"), not with two, except after "=". A lone "-" is a plain word.
/// Errors (kUsage): an unknown flag (with the one that was probably meant), a missing value, a value for a switch.
/// After
/// --help or -h nothing is an error, wherever it stands before "--".
/// `takes_plain` false: no plain word is right here, and the first one ends the reading: what follows it is likely to
/// be another program's.
Result<Args> split_args(std::span<const std::string> words, std::span<const FlagShape> shapes, bool takes_plain = true);

}  // namespace stalltrace::cli
