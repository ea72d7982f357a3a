// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/similar_name.h"
#include "cli/framework/command_line.h"
#include "cli/framework/exit_code.h"
#include "cli/framework/help.h"

namespace stalltrace::cli {
namespace {

using Subcommands = std::span<const std::unique_ptr<Subcommand>>;

bool is_of_group(const Subcommand& subcommand, std::string_view group) {
  return subcommand.info().name.starts_with(std::string(group) + " ");
}

/// "run, matrix, up"
std::string names_in_group(Subcommands subcommands, std::string_view group) {
  std::string names;
  for (const auto& subcommand : subcommands) {
    if (is_of_group(*subcommand, group)) {
      names += (names.empty() ? "" : ", ") + subcommand->info().name.substr(group.size() + 1);
    }
  }
  return names;
}

Error unknown_subcommand(Subcommands subcommands, const std::string& typed, std::string remedy) {
  std::vector<std::string> known;
  for (const auto& subcommand : subcommands) {
    const std::string name = subcommand->info().name;
    known.push_back(name);
    known.push_back(name.substr(0, name.find(' ')));
  }
  const std::vector<std::string_view> names(known.begin(), known.end());
  if (const auto meant = similar_name(typed, names)) {
    remedy = fmt::format("did you mean '{}'?", *meant);
  }
  return {
      .kind = ErrorKind::kUsage, .what = fmt::format("'{}' is not a subcommand", typed), .remedy = std::move(remedy)};
}

/// The error for a flag in the place of the subcommand.
Error misplaced_flag(const std::string& typed) {
  constexpr std::string_view kVersion = "--version";
  const bool version = typed == "-v" || typed == "-V" || similar_name(typed, std::span(&kVersion, 1));
  return {.kind = ErrorKind::kUsage,
          .what = fmt::format("'{}' is not a subcommand", typed),
          .remedy = version ? "did you mean '--version'?" : "flags come after the subcommand; see stalltrace --help"};
}

struct Match {
  Subcommand* subcommand = nullptr;
  size_t words = 0;
};

/// Names have one or two words; the longer match wins.
Match find_subcommand(std::span<const std::string> words, Subcommands subcommands) {
  Match best;
  for (const auto& subcommand : subcommands) {
    const std::string name = subcommand->info().name;
    if (name == words[0] && best.words < 1) {
      best = {subcommand.get(), 1};
    }
    if (words.size() > 1 && name == words[0] + " " + words[1]) {
      best = {subcommand.get(), 2};
    }
  }
  return best;
}

bool wants_help(const std::string& word) { return word == "--help" || word == "-h" || word == "help"; }

Result<int> run_subcommand(Subcommand& subcommand, std::span<const std::string> words, Console& console) {
  const std::vector<Flag> flags = subcommand.flags();
  const Result<Parsed> parsed = parse_args(subcommand.info().name, words, flags);
  if (!parsed) {
    Error error = parsed.error();
    if (error.remedy.empty()) {
      error.remedy = fmt::format("see stalltrace {} --help", subcommand.info().name);
    }
    return std::unexpected(std::move(error));
  }
  if (*parsed == Parsed::kHelpWanted) {
    console.out(subcommand_help(subcommand));
    return kExitDone;
  }
  return subcommand.run(console);
}

/// Handles a word that is only the beginning of names ("lab"): lists them.
Result<int> run_group(std::span<const std::string> words, Subcommands subcommands, Console& console) {
  const std::string& group = words[0];
  if (std::ranges::none_of(subcommands, [&](const auto& subcommand) { return is_of_group(*subcommand, group); })) {
    return std::unexpected(group.starts_with('-') ? misplaced_flag(group)
                                                  : unknown_subcommand(subcommands, group, "see stalltrace --help"));
  }
  if (words.size() == 1 || wants_help(words[1])) {
    console.out(overview(subcommands, group));
    return words.size() == 1 ? kExitUsage : kExitDone;
  }
  return std::unexpected(unknown_subcommand(subcommands, group + " " + words[1],
                                            fmt::format("{} has {}", group, names_in_group(subcommands, group))));
}

Result<int> run_words(std::span<const std::string> words, Subcommands subcommands, Console& console) {
  if (words.empty()) {
    return fail("no subcommand given", "see stalltrace --help", ErrorKind::kUsage);
  }
  if (wants_help(words[0])) {
    if (words.size() == 1 || wants_help(words[1])) {
      console.out(overview(subcommands, ""));
      return kExitDone;
    }
    std::vector<std::string> page(words.begin() + 1, words.end());  // "help lab run" is "lab run --help"
    page.emplace_back("--help");
    return run_words(page, subcommands, console);
  }
  if (words[0] == "--version") {
    const std::string version = "version";
    return run_words(std::span(&version, 1), subcommands, console);
  }
  const Match match = find_subcommand(words, subcommands);
  if (match.subcommand == nullptr) {
    return run_group(words, subcommands, console);
  }
  return run_subcommand(*match.subcommand, words.subspan(match.words), console);
}

}  // namespace

int dispatch(std::span<const std::string> words, std::span<const std::unique_ptr<Subcommand>> subcommands,
             Console& console) {
  const Result<int> result = run_words(words, subcommands, console);
  const int code = result ? *result : report_error(result.error(), console);
  const Status written = console.finish();
  if (!written) {
    console.error(written.error());
    return kExitFailed;
  }
  return code;
}

int report_error(const Error& error, Console& console) {
  console.error(error);
  return error.kind == ErrorKind::kUsage ? kExitUsage : kExitFailed;
}

}  // namespace stalltrace::cli
