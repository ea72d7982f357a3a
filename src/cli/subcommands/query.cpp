// SPDX-License-Identifier: Apache-2.0
// `stalltrace query`: SQL on a recording, read-only.
#include "store/query.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/process/command.h"
#include "base/text.h"
#include "cli/fleet/node_flags.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/reporting.h"
#include "cli/subcommands/subcommands.h"
#include "fleet/outliers.h"
#include "fleet/query.h"
#include "report/query_format.h"
#include "store/row_table.h"

namespace stalltrace::cli {
namespace {

/// More than one word, of which the first begins a statement or asks for the schema as other programs have it. The name
/// of a file may have a space, too.
bool looks_like_sql(std::string_view text) {
  constexpr auto kFirst =
      std::to_array<std::string_view>({"SELECT", "WITH", "VALUES", "EXPLAIN", "PRAGMA", "INSERT", "UPDATE", "DELETE",
                                       "CREATE", "DROP", "ALTER", "SHOW", "DESCRIBE", "DESC"});
  const std::string_view trimmed = trim(text);
  const std::string_view first = trimmed.substr(0, trimmed.find_first_of(" \t\r\n"));
  const auto same = [](char a, char b) { return (a >= 'a' && a <= 'z' ? a - 'a' + 'A' : a) == b; };
  return first.size() < trimmed.size() &&
         std::ranges::any_of(kFirst, [&](std::string_view word) { return std::ranges::equal(first, word, same); });
}

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

class QuerySubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {
        .name = "query",
        .summary = "ask a recording, or those of many nodes, in SQL, read-only",
        .example =
            "stalltrace query stall.db "
            "'SELECT op, rank, duration_ns FROM nccl_events ORDER BY 3 DESC LIMIT 5'",
        .details =
            "One SELECT is run; nothing can be changed by it. What there is to ask:\n"
            "  stalltrace query FILE \"SELECT name FROM sqlite_master\"                     lists tables and views\n"
            "  stalltrace query FILE \"SELECT name FROM pragma_table_info('collective')\"  lists the columns of one\n"
            "docs/recording.md has their meaning, docs/queries.md has recipes."};
  }
  std::vector<Flag> flags() override {
    Flag sql = argument("SQL", "one statement", &sql_);
    sql.when_followed = "SQL is one argument: put it in quotes";
    std::vector<Flag> all = {
        optional(argument("FILE", "a recording; none with --nodes", &file_)),
        std::move(sql),
        choice_flag("--format", "how rows are printed", {"table", "json", "csv"}, &format_),
        duration_flag("--timeout", "give up after this long", &options_.time_limit_ns),
        text_flag("--then", "SQL", "with --nodes: a statement that runs on the table 'rows', all rows of all nodes",
                  &then_),
        text_flag("--outliers", "COLUMN",
                  "add a column z, the robust z-score of this one, and print the farthest first", &outliers_)};
    std::ranges::move(nodes_.flags(), std::back_inserter(all));
    return all;
  }
  Result<int> run(Console& console) override {
    ST_TRY(check_arguments());
    NodeFlags::Target target;
    if (nodes_.given()) {
      ST_ASSIGN(target, nodes_.prepare(console));
      confine_to_reading({}, "", Makes::kFile, Network::kConnects);
    } else {
      confine_to_reading(std::span(&file_, 1));
    }
    const auto formatter = report::make_query_formatter(
        *report::query_format_from_text(format_), [&console](std::string_view text) { print_rows(console, text); });
    WhileRead printed(*formatter, console);
    fleet::OutlierSink outliers(outliers_, printed);
    RowSink& last = outliers_.empty() ? static_cast<RowSink&>(printed) : outliers;
    Status judged;
    if (nodes_.given()) {
      ST_ASSIGN(judged, ask_nodes(console, target, last));
    } else {
      ST_TRY(store::query_recording(file_, sql_, options_, last));
    }
    if (!outliers_.empty()) {
      ST_TRY(outliers.finish());
    }
    ST_TRY(formatter->finish());
    ST_TRY(judged);
    return kExitDone;
  }

 private:
  /// Delivers the rows of all nodes, or those of --then; how many nodes may fail is the inner status.
  Result<Status> ask_nodes(Console& console, const NodeFlags::Target& target, RowSink& sink) {
    ST_ASSIGN(const auto table, store::RowTable::make());
    RowSink& gathered = then_.empty() ? sink : static_cast<RowSink&>(*table);
    ST_ASSIGN(const fleet::FleetAnswer answer, fleet::query_nodes(target.nodes, sql_, target.client, gathered));
    for (const fleet::CopiedRecording& copy : answer.copies) {
      console.note(
          fmt::format("{}: {} is the recording of {}: its rows count once", copy.node, copy.recording, copy.first));
    }
    for (const std::string& node : answer.cut) {
      console.note(fmt::format("{}: the first rows only, it has more: narrow the query", node));
    }
    Status judged = nodes_.judge(console, answer.failed, target.nodes.size());
    if (answer.answered == 0) {
      return std::unexpected(std::move(judged.error()));
    }
    if (!then_.empty()) {
      auto asked = table->query(then_, options_, sink);
      if (!asked) {
        asked.error().remedy = "the table 'rows' has a column 'node' and those of the first statement";
        return with_context("--then", std::move(asked.error()));
      }
    }
    return judged;
  }

  [[nodiscard]] Status check_arguments() const {
    if (nodes_.given()) {
      return file_.empty() ? Status()
                           : fail("--nodes and a file at once",
                                  "ask one or the other: with --nodes, SQL is the only argument", ErrorKind::kUsage);
    }
    if (!then_.empty()) {
      return fail("--then is for the rows of many nodes", "give --nodes too", ErrorKind::kUsage);
    }
    if (file_.empty()) {
      return fail(looks_like_sql(sql_) ? "FILE is missing" : "SQL is missing", "give both, or --nodes and SQL",
                  ErrorKind::kUsage);
    }
    return check_order();
  }

  /// Refuses SQL in the place of the file.
  [[nodiscard]] Status check_order() const {
    if (!looks_like_sql(file_) || ::access(file_.c_str(), F_OK) == 0) {
      return {};
    }
    return fail(fmt::format("'{}' is not a file", file_),
                fmt::format("the file comes first: stalltrace query {}", format_command({sql_, file_})),
                ErrorKind::kUsage);
  }

  std::string file_;
  std::string sql_;
  std::string format_ = "table";
  std::string then_;
  std::string outliers_;
  store::QueryOptions options_;
  NodeFlags nodes_{10 * kNsPerSecond};
};

}  // namespace

std::unique_ptr<Subcommand> make_query_subcommand() { return std::make_unique<QuerySubcommand>(); }

}  // namespace stalltrace::cli
