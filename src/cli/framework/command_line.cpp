// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

namespace stalltrace::cli {
namespace {

/// What CLI11 collected for one flag, before it is given a meaning.
struct Collected {
  const Flag* flag = nullptr;
  bool seen = false;
  std::vector<std::string> values;
};

std::unexpected<Error> usage_error(std::string what) { return fail(std::move(what), {}, ErrorKind::kUsage); }

void declare(CLI::App& app, Collected& entry) {
  const Flag& flag = *entry.flag;
  switch (flag.kind) {
    case Flag::Kind::kSwitch:
      app.add_flag(flag.name, entry.seen);
      break;
    case Flag::Kind::kValue:
      app.add_option(flag.name, entry.values)->expected(1)->allow_extra_args(false);
      break;
    case Flag::Kind::kRepeated:
      app.add_option(flag.name, entry.values)->allow_extra_args(false);
      break;
    case Flag::Kind::kArgument:
    case Flag::Kind::kArguments:
    case Flag::Kind::kCommand:
      break;
  }
}

/// CLI11 takes its words from the back.
std::vector<std::string> reversed(std::span<const std::string> words) { return {words.rbegin(), words.rend()}; }

Status collect(CLI::App& app, std::span<const std::string> words) {
  try {
    app.parse(reversed(words));
    return {};
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> extras = app.remaining();
    const std::string& word = extras.empty() ? words.front() : extras.front();
    return usage_error(fmt::format("the flag '{}' is not known here", word));
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  }
}

/// Gives the plain words to the arguments in order; the last may take many.
Status distribute(std::vector<Collected>& entries, std::span<const std::string> plain) {
  for (Collected& entry : entries) {
    if (!entry.flag->is_argument() || entry.flag->kind == Flag::Kind::kCommand) {
      continue;
    }
    if (plain.empty()) {
      return usage_error(fmt::format("{} is missing", entry.flag->name));
    }
    const size_t taken = entry.flag->kind == Flag::Kind::kArguments ? plain.size() : 1;
    entry.values.assign(plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(taken));
    plain = plain.subspan(taken);
  }
  return plain.empty() ? Status{} : usage_error(fmt::format("the argument '{}' is one too many", plain.front()));
}

Status assign(const Collected& entry) {
  const Flag& flag = *entry.flag;
  if (entry.seen) {
    return flag.assign("");
  }
  if (flag.required && entry.values.empty()) {
    return usage_error(fmt::format("{} {} is missing", flag.name, flag.value_name));
  }
  for (const std::string& value : entry.values) {
    if (auto status = flag.assign(value); !status) {
      return with_context(flag.name, std::move(status.error()));
    }
  }
  return {};
}

}  // namespace

Result<Parsed> parse_args(std::span<const std::string> words, std::span<const Flag> flags) {
  CLI::App app;
  app.set_help_flag();
  bool help = false;
  app.add_flag("-h,--help", help);
  std::vector<std::string> plain;
  app.add_option("WORDS", plain)->expected(0, CLI::detail::expected_max_vector_size);

  std::vector<Collected> entries(flags.size());
  for (size_t i = 0; i < flags.size(); ++i) {
    entries[i].flag = &flags[i];
    declare(app, entries[i]);
  }
  const auto command = std::ranges::find(flags, Flag::Kind::kCommand, &Flag::kind);
  if (command != flags.end()) {
    const auto dashes = std::ranges::find(words, "--");
    const size_t before = static_cast<size_t>(dashes - words.begin());
    if (dashes != words.end()) {
      entries[static_cast<size_t>(command - flags.begin())].values.assign(dashes + 1, words.end());
      words = words.first(before);
    }
  }
  auto status = collect(app, words);
  if (help) {
    return Parsed::kHelpWanted;
  }
  ST_TRY(status);
  ST_TRY(distribute(entries, plain));
  for (const Collected& entry : entries) {
    ST_TRY(assign(entry));
  }
  return Parsed::kRun;
}

}  // namespace stalltrace::cli
