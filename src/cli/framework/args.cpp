// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/args.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/similar_name.h"

namespace stalltrace::cli {
namespace {

bool is_help(std::string_view word) { return word == "--help" || word == "-h"; }

bool is_flag(std::string_view word) { return word.size() > 1 && word.starts_with('-'); }

/// The flag that was probably meant: a similar one. One letter says nothing, since flags have no short forms and the
/// first that begins with it may mean anything; but for -o, which is the output in most programs.
std::string suggestion(std::string_view typed, std::span<const FlagShape> shapes) {
  const bool has_output = std::ranges::find(shapes, "--out", &FlagShape::name) != shapes.end();
  if (typed == "-o" && has_output) {
    return "did you mean '--out'?";
  }
  if (typed.size() == 2) {
    return "flags are whole words; --help lists them";
  }
  std::vector<std::string_view> names{"--help"};
  for (const FlagShape& shape : shapes) {
    names.push_back(shape.name);
  }
  const std::optional<std::string_view> meant = similar_name(typed, names);
  return meant ? fmt::format("did you mean '{}'?", *meant) : "";
}

class Splitter {
 public:
  Splitter(std::span<const std::string> words, std::span<const FlagShape> shapes, bool takes_plain)
      : words_(words), shapes_(shapes), takes_plain_(takes_plain) {}

  Result<Args> split() {
    for (at_ = 0; at_ < words_.size(); ++at_) {
      const std::string& word = words_[at_];
      if (word == "--") {
        args_.dashes = true;
        args_.after_dashes.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_) + 1, words_.end());
        break;
      }
      if (is_help(word)) {
        args_.help = true;
      } else if (is_flag(word)) {
        take_flag(word);
      } else {
        args_.plain.push_back({word, at_});
        if (!takes_plain_) {
          break;
        }
      }
    }
    if (first_error_ && !args_.help) {
      return std::unexpected(std::move(*first_error_));
    }
    return std::move(args_);
  }

 private:
  void take_flag(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto shape = std::ranges::find(shapes_, name, &FlagShape::name);
    if (shape == shapes_.end()) {
      complain(fmt::format("the flag '{}' is not known here", name), suggestion(name, shapes_));
      return;
    }
    Args::Given given{.flag = static_cast<size_t>(shape - shapes_.begin()), .value = {}};
    if (equals != std::string::npos) {
      if (!shape->takes_value) {
        complain(fmt::format("{} takes no value", name), {});
        return;
      }
      given.value = word.substr(equals + 1);
    } else if (shape->takes_value) {
      if (at_ + 1 == words_.size() || words_[at_ + 1].starts_with("--") || is_help(words_[at_ + 1])) {
        complain(fmt::format("{} needs a value", name), shape->value_form);
        return;
      }
      given.value = words_[++at_];
    }
    args_.given.push_back(std::move(given));
  }

  void complain(std::string what, std::string remedy) {
    if (!first_error_) {
      first_error_ = Error{.kind = ErrorKind::kUsage, .what = std::move(what), .remedy = std::move(remedy)};
    }
  }

  std::span<const std::string> words_;
  std::span<const FlagShape> shapes_;
  bool takes_plain_;
  size_t at_ = 0;
  Args args_;
  std::optional<Error> first_error_;
};

}  // namespace

Result<Args> split_args(std::span<const std::string> words, std::span<const FlagShape> shapes, bool takes_plain) {
  return Splitter(words, shapes, takes_plain).split();
}

}  // namespace stalltrace::cli
