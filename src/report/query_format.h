// SPDX-License-Identifier: Apache-2.0
// Rows of a query as text: a table for people, JSON and CSV for programs. Pure: the text is passed to a function.
//   table: aligned, numbers to the right; NULL is "NULL" without quotes, a text that reads NULL is 'NULL'
//   json:  an array with one object a row; integers in full (also beyond 2^53), NULL is null
//   csv:   RFC 4180 with a header line, but lines end with LF; NULL is an empty field, empty text is ""; a text that a
//          spreadsheet would take for a formula (it begins with = + - @, a tab or a line end, and is no number) and one
//          that begins with an apostrophe gets an apostrophe before it
// A blob is x'..' in a table and lower-case hex in JSON and CSV. Characters that could control or mislead a terminal
// are '?' in a table and \uXXXX in JSON; CSV keeps texts unchanged.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "model/table_rows.h"

namespace stalltrace::report {

enum class QueryFormat { kTable, kJson, kCsv };
/// "table", "json", "csv"
std::optional<QueryFormat> query_format_from_text(std::string_view text);

/// A sink that passes its text to `write` piece by piece. finish() must be called after a successful query.
class QueryFormatter : public RowSink {
 public:
  virtual Status finish() = 0;
};
using TextWriter = std::function<void(std::string_view)>;
std::unique_ptr<QueryFormatter> make_query_formatter(QueryFormat format, TextWriter write);

}  // namespace stalltrace::report
