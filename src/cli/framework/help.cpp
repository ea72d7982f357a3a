// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/help.h"

#include <fmt/format.h>

#include <algorithm>

namespace stalltrace::cli {
namespace {

/// As it is typed: "--out FILE", "FILE...", "-- COMMAND ...".
std::string typed_form(const Flag& flag) {
  switch (flag.kind) {
    case Flag::Kind::kSwitch:
    case Flag::Kind::kArgument:
      return flag.name;
    case Flag::Kind::kValue:
      return flag.name + " " + flag.value_name;
    case Flag::Kind::kRepeated:
      return flag.name + " " + flag.value_name + " ...";
    case Flag::Kind::kArguments:
      return flag.name + " ...";
    case Flag::Kind::kCommand:
      return "-- " + flag.name + " ...";
  }
  return flag.name;
}

/// Rows of two columns, the second aligned.
std::string table(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t width = 0;
  for (const auto& [left, right] : rows) {
    width = std::max(width, left.size());
  }
  std::string text;
  for (const auto& [left, right] : rows) {
    text += fmt::format("  {:<{}}  {}\n", left, width, right);
  }
  return text;
}

std::string flag_table(std::span<const Flag> flags, bool arguments) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Flag& flag : flags) {
    if (flag.is_argument() == arguments && !flag.hidden) {
      rows.emplace_back(typed_form(flag), flag.default_text.empty()
                                              ? flag.help
                                              : fmt::format("{} (default: {})", flag.help, flag.default_text));
    }
  }
  if (!arguments) {
    rows.emplace_back("--help", "this page");
  }
  return table(rows);
}

}  // namespace

std::string usage_line(const VerbInfo& info, std::span<const Flag> flags) {
  std::string arguments;
  std::string command;
  for (const Flag& flag : flags) {
    if (flag.kind == Flag::Kind::kCommand) {
      command = " [" + typed_form(flag) + "]";
    } else if (flag.is_argument() || flag.required) {
      arguments += " " + typed_form(flag);
    }
  }
  return "stalltrace " + info.name + arguments + " [flags]" + command;
}

std::string verb_help(Subcommand& verb) {
  const VerbInfo info = verb.info();
  const std::vector<Flag> flags = verb.flags();
  std::string text =
      fmt::format("stalltrace {}: {}\n\nUsage:\n  {}\n", info.name, info.summary, usage_line(info, flags));
  if (std::ranges::any_of(flags, &Flag::is_argument)) {
    text += "\nArguments:\n" + flag_table(flags, true);
  }
  text += "\nFlags:\n" + flag_table(flags, false);
  if (!info.details.empty()) {
    text += "\n" + info.details + "\n";
  }
  return text + fmt::format("\nExample:\n  {}\n", info.example);
}

std::string overview(std::span<const std::unique_ptr<Subcommand>> verbs, std::string_view prefix) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& verb : verbs) {
    const VerbInfo info = verb->info();
    if (info.name.starts_with(prefix)) {
      rows.emplace_back(info.name, info.summary);
    }
  }
  return fmt::format(
             "stalltrace: which rank, which link, and why is a distributed training job slow or hung?\n\n"
             "Usage:\n  stalltrace VERB [flags]\n\nVerbs:\n{}\n",
             table(rows)) +
         "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 findings exist (explain --exit-code).\n"
         "Each verb has a page of its own: stalltrace VERB --help\n";
}

}  // namespace stalltrace::cli
