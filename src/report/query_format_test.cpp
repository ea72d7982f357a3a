// SPDX-License-Identifier: Apache-2.0
// Rows as a table, as JSON and as CSV.
#include "report/query_format.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace stalltrace::report {
namespace {

using Row = std::vector<Value>;

std::string text_of(QueryFormat format, const std::vector<std::string>& names, const std::vector<Row>& rows) {
  std::string text;
  const auto formatter = make_query_formatter(format, [&](std::string_view piece) { text += piece; });
  EXPECT_TRUE(formatter->columns(names).has_value());
  for (const Row& row : rows) {
    EXPECT_TRUE(formatter->row(row).value_or(false));
  }
  EXPECT_TRUE(formatter->finish().has_value());
  return text;
}

const std::vector<std::string> kNames{"n", "i", "r", "inf", "t", "e", "b", "s"};

Row every_type() {
  return {Value{},
          std::numeric_limits<int64_t>::max(),
          0.5,
          std::numeric_limits<double>::infinity(),
          std::string("a\"b,c"),
          std::string(),
          Blob{std::string("\x00\xff", 2)},
          std::string("NULL")};
}

TEST(QueryFormat, CsvEndsItsLinesAsAShellExpects) {
  EXPECT_EQ(text_of(QueryFormat::kCsv, kNames, {every_type()}),
            "n,i,r,inf,t,e,b,s\n,9223372036854775807,0.5,inf,\"a\"\"b,c\",\"\",00ff,NULL\n");
  EXPECT_EQ(text_of(QueryFormat::kCsv, {"x"}, {{std::string("two\nlines")}, {std::string("a\rb")}}),
            "x\n\"two\nlines\"\n\"a\rb\"\n");
}

TEST(QueryFormat, CsvHoldsNoFormulas) {
  for (const char* formula : {"=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\rx", "-", "'=1", "\uff1d1"}) {
    EXPECT_EQ(text_of(QueryFormat::kCsv, {"x"}, {{std::string(formula)}}), fmt::format("x\n\"'{}\"\n", formula));
    EXPECT_TRUE(text_of(QueryFormat::kCsv, {formula}, {}).starts_with("\"'"));
  }
  EXPECT_EQ(text_of(QueryFormat::kCsv, {"i", "r", "t"}, {{int64_t{-5}, -0.5, std::string("-12.5e3")}}),
            "i,r,t\n-5,-0.5,-12.5e3\n");
}

TEST(QueryFormat, NamesAndTextsCannotDriveOrMisleadATerminal) {
  const std::string hostile = "a\x1b]52;c;eA==\x07\u202eb\u009b";
  for (const QueryFormat format : {QueryFormat::kTable, QueryFormat::kJson}) {
    const std::string text = text_of(format, {hostile}, {{hostile}});
    for (const char* part : {"\x1b", "\x07", "\u202e", "\u009b"}) {
      EXPECT_EQ(text.find(part), std::string::npos) << text;
    }
  }
}

TEST(QueryFormat, Json) {
  EXPECT_EQ(text_of(QueryFormat::kJson, kNames, {every_type()}),
            "[\n{\"n\": null, \"i\": 9223372036854775807, \"r\": 0.5, \"inf\": \"inf\", \"t\": \"a\\\"b,c\", "
            "\"e\": \"\", \"b\": \"00ff\", \"s\": \"NULL\"}\n]\n");
  EXPECT_EQ(text_of(QueryFormat::kJson, {"x"}, {}), "[]\n");
}

TEST(QueryFormat, Table) {
  EXPECT_EQ(
      text_of(QueryFormat::kTable, {"absents", "n", "text"},
              {{Value{}, int64_t{12}, std::string("NULL")}, {std::string("x"), int64_t{3}, std::string("two\nlines")}}),
      "absents  n   text\n"
      "-------  --  ----------\n"
      "   NULL  12  'NULL'\n"
      "x         3  two\\nlines\n");
}

TEST(QueryFormat, Names) {
  EXPECT_EQ(query_format_from_text("csv"), QueryFormat::kCsv);
  EXPECT_EQ(query_format_from_text("xml"), std::nullopt);
}

}  // namespace
}  // namespace stalltrace::report
