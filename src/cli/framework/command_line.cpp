// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/process/command.h"
#include "cli/framework/args.h"

namespace stalltrace::cli {
namespace {

std::unexpected<Error> usage_error(std::string what, std::string remedy = {}) {
  return fail(std::move(what), std::move(remedy), ErrorKind::kUsage);
}

bool takes_value(const Flag& flag) { return flag.kind == Flag::Kind::kValue || flag.kind == Flag::Kind::kRepeated; }

/// " a 'b c'", quoted for a shell; "" for no words.
std::string shell_words(std::span<const std::string> words) {
  return words.empty() ? "" : " " + format_command({words.begin(), words.end()});
}

/// Assigns the words of one command line to the rows.
class Assignment {
 public:
  Assignment(std::string_view name, std::span<const std::string> words, std::span<const Flag> flags, bool secure)
      : name_(name), words_(words), flags_(flags), secure_(secure) {}

  Result<Parsed> run() {
    ST_ASSIGN(Args args, split());
    if (args.help) {
      return Parsed::kHelpWanted;
    }
    ST_TRY(assign_flags(args));
    ST_TRY(assign_arguments(args));
    ST_TRY(assign_command(args));
    return Parsed::kRun;
  }

 private:
  Result<Args> split() const {
    std::vector<FlagShape> shapes;
    for (const Flag& flag : flags_) {
      shapes.push_back({.name = flag.is_argument() ? std::string_view() : flag.name,
                        .takes_value = takes_value(flag),
                        .value_form = flag.value_form.empty() ? fmt::format("write {} {}", flag.name, flag.value_name)
                                                              : "write it like " + flag.value_form});
    }
    Result<Args> args = split_args(words_, shapes, find_command() == nullptr || has_argument());
    if (args && find_command() == nullptr) {  // then "--" only ends the flags
      for (std::string& word : args->after_dashes) {
        args->plain.push_back({std::move(word), words_.size()});
      }
    }
    return args;
  }

  Status assign_flags(const Args& args) const {
    std::vector<size_t> times(flags_.size());
    for (const Args::Given& given : args.given) {
      const Flag& flag = flags_[given.flag];
      if (secure_ && flag.privileged) {
        return usage_error(
            fmt::format("{} is refused: this program has rights that its user lacks (file capabilities or set-user-ID)",
                        flag.name),
            "run it as root, or as a service (docs/cluster.md)");
      }
      if (++times[given.flag] > 1 && flag.kind == Flag::Kind::kValue) {
        return usage_error(fmt::format("{} is given twice", flag.name), "give it once");
      }
      if (auto status = flag.assign(given.value); !status) {
        return with_context(flag.name, std::move(status.error()));
      }
    }
    for (size_t i = 0; i < flags_.size(); ++i) {
      if (flags_[i].required && !flags_[i].is_argument() && times[i] == 0) {
        return usage_error(fmt::format("{} {} is missing", flags_[i].name, flags_[i].value_name));
      }
    }
    return {};
  }

  /// Assigns the plain words to the arguments in order; the last argument may take several.
  Status assign_arguments(const Args& args) const {
    std::span<const Args::Word> plain = args.plain;
    const Flag* last = nullptr;
    for (const Flag& flag : flags_) {
      if (!flag.is_argument() || flag.kind == Flag::Kind::kCommand) {
        continue;
      }
      if (flag.optional && plain.size() <= required_after(flag)) {
        continue;
      }
      if (plain.empty()) {
        return usage_error(fmt::format("{} is missing", flag.name));
      }
      const size_t taken = flag.kind == Flag::Kind::kArguments ? plain.size() : 1;
      for (const Args::Word& word : plain.first(taken)) {
        if (auto status = flag.assign(word.text); !status) {
          return with_context(flag.name, std::move(status.error()));
        }
      }
      plain = plain.subspan(taken);
      last = &flag;
    }
    return plain.empty() ? Status{} : Status(too_many(plain.front(), last));
  }

  /// How many words the required arguments after `flag` take.
  [[nodiscard]] size_t required_after(const Flag& flag) const {
    const auto rest = flags_.subspan(static_cast<size_t>(&flag - flags_.data()) + 1);
    return static_cast<size_t>(std::ranges::count_if(rest, [](const Flag& other) {
      return other.is_argument() && other.kind != Flag::Kind::kCommand && !other.optional;
    }));
  }

  std::unexpected<Error> too_many(const Args::Word& word, const Flag* last) const {
    const Flag* command = find_command();
    if (command != nullptr) {
      return usage_error(
          fmt::format("'{}' is not a flag", word.text),
          fmt::format("put -- before the command: stalltrace {}{} --{}", name_,
                      shell_words(words_.first(word.position)), shell_words(words_.subspan(word.position))));
    }
    return usage_error(fmt::format("the argument '{}' is one too many", word.text),
                       last == nullptr ? "" : last->when_followed);
  }

  Status assign_command(const Args& args) const {
    const Flag* command = find_command();
    if (command == nullptr) {
      return {};
    }
    if (command->required && args.after_dashes.empty()) {
      const size_t before = static_cast<size_t>(std::ranges::find(words_, "--") - words_.begin());
      return usage_error(fmt::format("{} is missing", command->name),
                         fmt::format("write it after --: stalltrace {}{} -- {} ...", name_,
                                     shell_words(words_.first(before)), command->name));
    }
    for (const std::string& word : args.after_dashes) {
      ST_TRY(command->assign(word));
    }
    return {};
  }

  [[nodiscard]] bool has_argument() const {
    return std::ranges::any_of(
        flags_, [](const Flag& flag) { return flag.is_argument() && flag.kind != Flag::Kind::kCommand; });
  }

  [[nodiscard]] const Flag* find_command() const {
    const auto found = std::ranges::find(flags_, Flag::Kind::kCommand, &Flag::kind);
    return found == flags_.end() ? nullptr : &*found;
  }

  std::string_view name_;
  std::span<const std::string> words_;
  std::span<const Flag> flags_;
  bool secure_;
};

}  // namespace

Result<Parsed> parse_args(std::string_view name, std::span<const std::string> words, std::span<const Flag> flags,
                          bool secure) {
  return Assignment(name, words, flags, secure).run();
}

}  // namespace stalltrace::cli
