// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/help.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/golden_text.h"

namespace stalltrace::cli {
namespace {

/// A subcommand whose page is asked for; it can't be run.
class ShownSubcommand final : public Subcommand {
 public:
  explicit ShownSubcommand(std::string details, std::string name = "sample")
      : name_(std::move(name)), details_(std::move(details)) {}

  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = name_,
            .summary = "show what a page of help looks like",
            .example = "stalltrace sample a.db",
            .details = details_};
  }
  std::vector<Flag> flags() override { return rows; }
  Result<int> run(Console& /*console*/) override { return 0; }

  std::vector<Flag> rows;

 private:
  std::string name_;
  std::string details_;
};

/// What a page has below its flags: the details, as they are printed, and the example.
std::string details_of(std::string details) {
  ShownSubcommand subcommand(std::move(details));
  const std::string page = subcommand_help(subcommand);
  const size_t flags = page.find("\nFlags:\n");
  const size_t end = page.find("\n\n", flags + 1);
  return flags == std::string::npos || end == std::string::npos ? page : page.substr(end + 2);
}

constexpr auto kExample = "\nExample:\n  stalltrace sample a.db\n";

std::string usage_of(const std::vector<Flag>& flags) { return usage_line({.name = "sample"}, flags); }

TEST(UsageLine, ArgumentsRequiredFlagsAndTheCommand) {
  std::string text;
  std::vector<std::string> texts;
  bool json = false;
  EXPECT_EQ(usage_of({}), "stalltrace sample [flags]");
  EXPECT_EQ(usage_of({switch_flag("--json", "", &json), text_flag("--out", "FILE", "", &text)}),
            "stalltrace sample [flags]")
      << "flags that may be left out are listed below";
  EXPECT_EQ(usage_of({required(text_flag("--out", "DIR", "", &text)), argument("FILE", "", &text)}),
            "stalltrace sample --out DIR FILE [flags]");
  EXPECT_EQ(usage_of({optional(argument("FILE", "", &text)), argument("SQL", "", &text)}),
            "stalltrace sample [FILE] SQL [flags]");
  EXPECT_EQ(usage_of({arguments("FILE", "", &texts)}), "stalltrace sample FILE ... [flags]");
  EXPECT_EQ(usage_of({optional(arguments("FILE", "", &texts))}), "stalltrace sample [FILE ...] [flags]");
  EXPECT_EQ(usage_of({command_argument("", &texts)}), "stalltrace sample [flags] [-- COMMAND ...]");
  EXPECT_EQ(usage_of({required(command_argument("", &texts)), argument("FILE", "", &text)}),
            "stalltrace sample FILE [flags] -- COMMAND ...")
      << "the command is the last, wherever its row is";
}

TEST(SubcommandHelp, EachPartOfAPage) {
  std::string out = "x.db";
  std::string file;
  std::string secret;
  std::vector<std::string> faults;
  std::optional<int64_t> duration_ns;
  int64_t size_bytes = int64_t{2} << 30;
  bool json = false;
  ShownSubcommand subcommand("The last part has further text.");
  subcommand.rows = {argument("FILE", "a recording", &file),
                     text_flag("--out", "FILE", "the file to make", &out),
                     texts_flag("--fault", "SPEC",
                                "what to break, where a text that is longer than the page is wide "
                                "goes on in its own column",
                                &faults),
                     duration_flag("--duration", "how long", &duration_ns),
                     size_limit_flag("--max-size", "how much", &size_bytes),
                     switch_flag("--json", "for programs", &json),
                     hidden(text_flag("--secret", "TEXT", "for tests", &secret))};
  golden::expect_text(subcommand_help(subcommand));
}

TEST(SubcommandHelp, WithoutArgumentsAndDetailsTheirPartsAreLeftOut) {
  ShownSubcommand subcommand("");
  golden::expect_text(subcommand_help(subcommand));
}

TEST(SubcommandHelp, AParagraphThatTheSourceBrokeIsJoinedAndBrokenAtThePagesWidth) {
  golden::expect_text(
      details_of("The source breaks its lines where its own width ends, for example after the word that comes\n"
                 "here: the page has another width, and joins the two before it breaks them. A third line goes on\n"
                 "as well, in the same way.\n"
                 "A sentence of its own begins a line."));
}

/// Each line is short, and what was joined before it is long.
TEST(SubcommandHelp, ALineIsJoinedToTheSourcesLineNotToAllThatWasJoined) {
  golden::expect_text(
      details_of("A paragraph that is long enough to be broken by the source, at the end of this very line, and\n"
                 "then goes on with few words\n"
                 "short entries\n"
                 "that are a list"));
}

TEST(SubcommandHelp, IndentedLinesStayAsTheyAre) {
  golden::expect_text(
      details_of("Settings, which are listed below in two columns, one setting a line, and are not a paragraph:\n"
                 "  quiet        late_rank 15 ms, which is a text of more than half of the width of a page\n"
                 "  loud         packet_loss 2 % into a node, which is as long, and begins with a small letter\n"
                 "  loud         slow_link, with a description that is longer than the others, so that the line does "
                 "not fit into the page's width\n"
                 "lines that follow a list are no part of it"));
}

TEST(SubcommandHelp, NewlinesAtTheEndOfTheDetailsAreDropped) {
  for (const auto* end : {"", "\n", "\n\n"}) {
    EXPECT_EQ(details_of(std::string("  a row of a list") + end), std::string("  a row of a list\n") + kExample);
  }
  EXPECT_EQ(details_of("\n"), details_of(""));
}

TEST(Overview, TheSubcommandsOfAGroup) {
  std::vector<std::unique_ptr<Subcommand>> subcommands;
  subcommands.push_back(std::make_unique<ShownSubcommand>("", "explain"));
  subcommands.push_back(std::make_unique<ShownSubcommand>("", "lab run"));
  golden::expect_text(overview(subcommands, ""));
  golden::expect_text(overview(subcommands, "lab"));
}

}  // namespace
}  // namespace stalltrace::cli
