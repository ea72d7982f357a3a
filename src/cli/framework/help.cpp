// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace stalltrace::cli {
namespace {

/// The form to type: "--out FILE", "FILE...", "-- COMMAND ...".
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

constexpr size_t kWidth = 100;     // of a page's lines
constexpr size_t kNarrowest = 40;  // room for a text, however wide the column before it is

/// The column where a line's text begins: behind its indentation and, in a table, its first column.
size_t text_column(std::string_view line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = begin == 0 ? std::string_view::npos : line.find("  ", begin);
  return gap == std::string_view::npos ? begin : line.find_first_not_of(' ', gap);
}

/// Appends `line`, which begins at the column `at`, broken at blanks into lines of at most kWidth; those that follow
/// begin where its text does.
void append_line(std::string& page, std::string_view line, size_t at) {
  const size_t hanging = text_column(line);
  size_t room = std::max(kWidth - std::min(at, kWidth), kNarrowest);
  while (line.size() > room) {
    const size_t last = line.rfind(' ', room);
    const bool breaks = last != std::string_view::npos && line.find_first_not_of(' ') < last && last > hanging;
    const size_t end = breaks ? last : line.find(' ', std::max(room, hanging + 1));
    if (end == std::string_view::npos) {
      break;
    }
    page.append(line.substr(0, end)).append("\n").append(at + hanging, ' ');
    line.remove_prefix(end + 1);
    room = std::max(kWidth - std::min(at + hanging, kWidth), kNarrowest);
  }
  page.append(line).append("\n");
}

/// True if a sentence goes on from `line` to `next`, two lines as the source has them: it broke a paragraph there.
bool goes_on(std::string_view line, std::string_view next) {
  return line.size() > kWidth / 2 && !line.starts_with(' ') && line.find_last_of(".:") != line.size() - 1 &&
         !next.empty() && next.front() >= 'a' && next.front() <= 'z';
}

/// Appends the lines of `text`; the first one begins at the column `at`, and so do the others. Indented lines stay as
/// they are: a list, a command to type.
void append_text(std::string& page, std::string_view text, size_t at) {
  std::vector<std::string> lines;
  std::string_view before;  // the source's line; lines.back() may be several of them
  for (const std::string_view line : split(text, '\n')) {
    if (!lines.empty() && goes_on(before, line)) {
      lines.back().append(" ").append(line);
    } else {
      lines.emplace_back(line);
    }
    before = line;
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    page.append(i == 0 ? 0 : at, ' ');
    append_line(page, lines[i], at);
  }
}

/// Rows of two columns, the second one aligned.
std::string table(const std::vector<std::pair<std::string, std::string>>& rows) {
  size_t width = 0;
  for (const auto& [left, right] : rows) {
    width = std::max(width, left.size());
  }
  std::string text;
  for (const auto& [left, right] : rows) {
    text += fmt::format("  {:<{}}  ", left, width);
    append_text(text, right, width + 4);
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

/// Explains values with a special form: "TIME is written like 500ms, 20s or 2m".
std::string value_forms(std::span<const Flag> flags) {
  std::set<std::string> lines;
  for (const Flag& flag : flags) {
    if (!flag.value_form.empty() && !flag.hidden) {
      lines.insert(fmt::format("{} is written like {}.\n", flag.value_name, flag.value_form));
    }
  }
  return lines.empty() ? "" : fmt::format("\n{}", fmt::join(lines, ""));
}

/// The beginning and end of a page about several subcommands.
struct Group {
  std::string_view name;  // the first word of its subcommands; "": all subcommands
  std::string_view headline;
  std::string_view example;
};
constexpr Group kGroups[] = {
    {"", "stalltrace: which rank, which link, and why is a distributed training job slow or hung?",
     "  sudo stalltrace trace --out node0.db   # on every node of the job\n"
     "  stalltrace explain node0.db node1.db   # anywhere"},
    {"lab", "stalltrace lab: a real job with a real fault on virtual nodes of this machine, to practise on",
     "  sudo stalltrace lab run --fault packet_loss:rank=2,percent=2 --out lab"},
};

}  // namespace

std::string usage_line(const SubcommandInfo& info, std::span<const Flag> flags) {
  std::string arguments;
  std::string command;
  for (const Flag& flag : flags) {
    if (flag.kind == Flag::Kind::kCommand) {
      command = flag.required ? " " + typed_form(flag) : " [" + typed_form(flag) + "]";
    } else if (flag.optional) {
      arguments += " [" + typed_form(flag) + "]";
    } else if (flag.is_argument() || flag.required) {
      arguments += " " + typed_form(flag);
    }
  }
  return "stalltrace " + info.name + arguments + " [flags]" + command;
}

std::string subcommand_help(Subcommand& subcommand) {
  const SubcommandInfo info = subcommand.info();
  const std::vector<Flag> flags = subcommand.flags();
  std::string text;
  append_text(text, fmt::format("stalltrace {}: {}", info.name, info.summary), 0);
  text += fmt::format("\nUsage:\n  {}\n", usage_line(info, flags));
  if (std::ranges::any_of(flags, &Flag::is_argument)) {
    text += "\nArguments:\n" + flag_table(flags, true);
  }
  text += "\nFlags:\n" + flag_table(flags, false) + value_forms(flags);
  std::string_view details = info.details;
  details.remove_suffix(details.size() - (details.find_last_not_of('\n') + 1));  // of a list, which ends its last line
  if (!details.empty()) {
    text += "\n";
    append_text(text, details, 0);
  }
  return text + fmt::format("\nExample:\n  {}\n", info.example);
}

std::string overview(std::span<const std::unique_ptr<Subcommand>> subcommands, std::string_view group) {
  const auto found = std::ranges::find(kGroups, group, &Group::name);
  const Group& page = found == std::end(kGroups) ? kGroups[0] : *found;
  const std::string prefix = group.empty() ? "" : std::string(group) + " ";
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& subcommand : subcommands) {
    const SubcommandInfo info = subcommand->info();
    if (info.name.starts_with(prefix)) {
      rows.emplace_back(info.name, info.summary);
    }
  }
  return fmt::format("{}\n\nUsage:\n  stalltrace {}SUBCOMMAND [flags]\n\nSubcommands:\n{}\nExample:\n{}\n\n",
                     page.headline, prefix, table(rows), page.example) +
         "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 findings exist (--exit-code),\n"
         "4 a check failed (preflight); of run and trace -- COMMAND: the command's, 127 where it does not exist,\n"
         "126 where it can't be started.\n" +
         fmt::format("Each subcommand has a page of its own: stalltrace help {}SUBCOMMAND\n", prefix);
}

}  // namespace stalltrace::cli
