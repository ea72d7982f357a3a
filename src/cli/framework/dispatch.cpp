// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/framework/command_line.h"
#include "cli/framework/exit_code.h"
#include "cli/framework/help.h"

namespace stalltrace::cli {
namespace {

using Verbs = std::span<const std::unique_ptr<Subcommand>>;

int exit_code_of(const Error& error) { return error.kind == ErrorKind::kUsage ? kExitUsage : kExitFailed; }

/// Levenshtein distance, for "did you mean".
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

Error unknown_verb(Verbs verbs, const std::string& typed) {
  std::string remedy = "see stalltrace --help";
  for (const auto& verb : verbs) {
    const std::string name = verb->info().name;
    if (edit_distance(name, typed) <= 2) {
      remedy = fmt::format("did you mean '{}'?", name);
    }
  }
  return {.kind = ErrorKind::kUsage, .what = fmt::format("'{}' is not a verb", typed), .remedy = remedy};
}

struct Match {
  Subcommand* verb = nullptr;
  size_t words = 0;
};

/// Names have one or two words; the longer match wins.
Match find_verb(std::span<const std::string> words, Verbs verbs) {
  Match best;
  for (const auto& verb : verbs) {
    const std::string name = verb->info().name;
    if (name == words[0] && best.words < 1) {
      best = {verb.get(), 1};
    }
    if (words.size() > 1 && name == words[0] + " " + words[1]) {
      best = {verb.get(), 2};
    }
  }
  return best;
}

bool wants_help(const std::string& word) { return word == "--help" || word == "-h" || word == "help"; }

Result<int> run_verb(Subcommand& verb, std::span<const std::string> words, Console& console) {
  const std::vector<Flag> flags = verb.flags();
  const Result<Parsed> parsed = parse_args(words, flags);
  if (!parsed) {
    Error error = parsed.error();
    if (error.remedy.empty()) {
      error.remedy = fmt::format("see stalltrace {} --help", verb.info().name);
    }
    return std::unexpected(std::move(error));
  }
  if (*parsed == Parsed::kHelpWanted) {
    console.out(verb_help(verb));
    return kExitDone;
  }
  return verb.run(console);
}

/// A word that only begins the names of others ("lab"): lists them.
Result<int> run_group(std::span<const std::string> words, Verbs verbs, Console& console) {
  const std::string prefix = words[0] + " ";
  const bool is_group =
      std::ranges::any_of(verbs, [&](const auto& verb) { return verb->info().name.starts_with(prefix); });
  if (!is_group) {
    return std::unexpected(unknown_verb(verbs, words[0]));
  }
  if (words.size() == 1 || wants_help(words[1])) {
    console.out(overview(verbs, prefix));
    return words.size() == 1 ? kExitUsage : kExitDone;
  }
  return std::unexpected(unknown_verb(verbs, words[0] + " " + words[1]));
}

Result<int> run_words(std::span<const std::string> words, Verbs verbs, Console& console) {
  if (words.empty()) {
    return fail("no verb given", "see stalltrace --help", ErrorKind::kUsage);
  }
  if (wants_help(words[0])) {
    console.out(overview(verbs, ""));
    return kExitDone;
  }
  if (words[0] == "--version") {
    const std::string version = "version";
    return run_words(std::span(&version, 1), verbs, console);
  }
  const Match match = find_verb(words, verbs);
  if (match.verb == nullptr) {
    return run_group(words, verbs, console);
  }
  return run_verb(*match.verb, words.subspan(match.words), console);
}

}  // namespace

int dispatch(std::span<const std::string> words, std::span<const std::unique_ptr<Subcommand>> verbs, Console& console) {
  const Result<int> result = run_words(words, verbs, console);
  if (!result) {
    console.error(result.error());
  }
  const Status written = console.finish();
  if (!written) {
    console.error(written.error());
    return kExitFailed;
  }
  return result ? *result : exit_code_of(result.error());
}

}  // namespace stalltrace::cli
