// SPDX-License-Identifier: Apache-2.0
// `stalltrace query`: SQL on a recording, read-only.
#include "store/query.h"

#include <fmt/format.h>
#include <unistd.h>

#include <span>
#include <utility>

#include "base/process/command.h"
#include "base/text.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/verbs/verbs.h"
#include "report/query_format.h"

namespace stalltrace::cli {
namespace {

/// Forwards rows until the reader closes the output.
class WhileRead final : public RowSink {
 public:
  WhileRead(RowSink& next, const Console& console) : next_(next), console_(console) {}

  Status columns(const std::vector<std::string>& names) override { return next_.columns(names); }
  Result<bool> row(std::span<const Value> values) override {
    return console_.reader_gone() ? Result<bool>(false) : next_.row(values);
  }

 private:
  RowSink& next_;
  const Console& console_;
};

/// CSV keeps names unchanged, which is right only for a file.
std::string for_terminal(std::string_view text) {
  std::string shown;
  for (const std::string_view line : split(text, '\n')) {
    shown += (line.data() == text.data() ? "" : "\n") + printable(line);
  }
  return shown;
}

class QueryVerb final : public Subcommand {
 public:
  [[nodiscard]] VerbInfo info() const override {
    return {
        .name = "query",
        .summary = "ask a recording in SQL, read-only",
        .example =
            "stalltrace query stall.db "
            "'SELECT op, rank, duration_ns FROM nccl_events ORDER BY 3 DESC LIMIT 5'",
        .details =
            "One SELECT is run; nothing can be changed by it. What there is to ask:\n"
            "  stalltrace query FILE \"SELECT name FROM sqlite_master\"                     lists tables and views\n"
            "  stalltrace query FILE \"SELECT name FROM pragma_table_info('collective')\"  lists the columns of one\n"
            "docs/recording.md says what they mean, docs/queries.md has recipes."};
  }
  std::vector<Flag> flags() override {
    Flag sql = argument("SQL", "one statement", &sql_);
    sql.when_followed = "SQL is one argument: put it in quotes";
    return {argument("FILE", "a recording", &file_), std::move(sql),
            choice_flag("--format", "how rows are printed", {"table", "json", "csv"}, &format_),
            duration_flag("--timeout", "give up after this long", &options_.time_limit_ns)};
  }
  Result<int> run(Console& console) override {
    ST_TRY(check_order());
    confine_to_reading(std::span(&file_, 1));
    const auto formatter =
        report::make_query_formatter(*report::query_format_from_text(format_), [&console](std::string_view text) {
          console.shows_out() ? console.out(for_terminal(text)) : console.out(text);
        });
    WhileRead sink(*formatter, console);
    ST_TRY(store::query_recording(file_, sql_, options_, sink));
    ST_TRY(formatter->finish());
    return kExitDone;
  }

 private:
  /// Refuses SQL in the place of the file.
  [[nodiscard]] Status check_order() const {
    const bool is_sql = file_.find(' ') != std::string::npos && ::access(file_.c_str(), F_OK) != 0;
    if (!is_sql) {
      return {};
    }
    return fail(fmt::format("'{}' is not a file", file_),
                fmt::format("the file comes first: stalltrace query {}", format_command({sql_, file_})),
                ErrorKind::kUsage);
  }

  std::string file_;
  std::string sql_;
  std::string format_ = "table";
  store::QueryOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> make_query_verb() { return std::make_unique<QueryVerb>(); }

}  // namespace stalltrace::cli
