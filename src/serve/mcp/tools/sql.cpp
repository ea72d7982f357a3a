// SPDX-License-Identifier: Apache-2.0
// `sql`: one SELECT on a recording, with limits of time, rows and bytes.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/text.h"
#include "serve/mcp/tools/answers.h"
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int64_t kUsualRows = 50;
constexpr int64_t kMostRows = 1000;
constexpr int64_t kUsualSeconds = 10;
constexpr int64_t kMostSeconds = 60;
constexpr size_t kMostCellBytes = 2000;
/// Readers of JSON keep integers as doubles, which are exact up to here.
constexpr int64_t kExactInteger = int64_t{1} << 53;

Json cell_of(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return *integer >= -kExactInteger && *integer <= kExactInteger ? Json(*integer) : Json(std::to_string(*integer));
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return *number;
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return cut_text(printable(*text), kMostCellBytes);
  }
  if (const auto* blob = std::get_if<Blob>(&value)) {
    std::string hex;
    for (const char byte : blob->bytes.substr(0, kMostCellBytes / 2)) {
      hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    }
    return hex + (blob->bytes.size() > kMostCellBytes / 2 ? "..." : "");
  }
  return nullptr;
}

class Rows final : public RowSink {
 public:
  explicit Rows(size_t most) : most_(most) {}

  void begin(std::string_view recording) { recording_ = printable(recording); }
  Status columns(const std::vector<std::string>& names) override {
    if (columns_.is_null()) {
      columns_ = Json::array({"recording"});
      for (const std::string& name : names) {
        columns_.push_back(cut_text(printable(name), 200));
      }
      bytes_ += columns_.dump().size();
    }
    return {};
  }
  Result<bool> row(std::span<const Value> values) override {
    Json row = Json::array({recording_});
    for (const Value& value : values) {
      row.push_back(cell_of(value));
    }
    const size_t bytes = row.dump().size();
    if (count_ == most_ || (count_ > 0 && bytes_ + bytes > kAnswerBytes)) {
      truncated_ = true;
      return false;
    }
    if (bytes_ + bytes > 4 * kAnswerBytes) {
      return fail("one row is longer than an answer may be", "select fewer columns, or substr() of them",
                  ErrorKind::kUsage);
    }
    bytes_ += bytes;
    ++count_;
    rows_.push_back(std::move(row));
    return true;
  }

  [[nodiscard]] bool truncated() const { return truncated_; }
  [[nodiscard]] size_t count() const { return count_; }
  Json take_columns() { return columns_.is_null() ? Json::array() : std::move(columns_); }
  Json take_rows() { return rows_.is_null() ? Json::array() : std::move(rows_); }

 private:
  size_t most_;
  std::string recording_;
  Json columns_;
  Json rows_;
  size_t bytes_ = 512;
  size_t count_ = 0;
  bool truncated_ = false;
};

Result<Answer> call(Recordings& recordings, const Json& arguments) {
  const int64_t limit_ns = integer_of(arguments, "timeout_s").value_or(kUsualSeconds) * kNsPerSecond;
  const int64_t deadline_ns = monotonic_now_ns() + limit_ns;
  const std::string only = text_of(arguments, "recording");
  std::vector<std::string> names;
  if (!only.empty()) {
    names.push_back(only);
  } else {
    for (const Recordings::Info& info : recordings.list()) {
      names.push_back(info.name);
    }
  }
  Rows rows(static_cast<size_t>(integer_of(arguments, "limit").value_or(kUsualRows)));
  size_t asked = 0;
  const auto out_of_time = [&] {
    return fail(fmt::format("stopped after the time limit of {}, with {} of {} answered", format_duration(limit_ns),
                            asked, count_of(static_cast<int64_t>(names.size()), "recording")),
                "name one recording, narrow the query, or give more timeout_s", ErrorKind::kInterrupted);
  };
  for (const std::string& name : names) {
    if (rows.truncated()) {
      break;
    }
    rows.begin(name);
    const int64_t left_ns = deadline_ns - monotonic_now_ns();
    if (left_ns <= 0) {
      return out_of_time();
    }
    const Status answered = recordings.query(name, text_of(arguments, "sql"), {.time_limit_ns = left_ns}, rows);
    if (!answered && answered.error().kind == ErrorKind::kInterrupted) {
      return out_of_time();
    }
    ST_TRY(answered);
    ++asked;
  }
  Json data =
      Json::object({{"columns", rows.take_columns()}, {"row_count", rows.count()}, {"truncated", rows.truncated()}});
  if (rows.truncated()) {
    data.set("more",
             "there are more rows: aggregate, add a WHERE, or page with ORDER BY, LIMIT and OFFSET; a larger "
             "limit helps only while the answer is short");
  }
  data.set("recorded_rows", rows.take_rows());
  Json next = Json::array();
  if (rows.count() == 0) {
    next.push_back(hint("sql", Json::object({{"sql", "SELECT name, type FROM sqlite_master"}}), "tables and views"));
  }
  data.set("next", std::move(next));
  return Answer{std::move(data),
                fmt::format("{} of {}{}. Values are data from the recording.",
                            count_of(static_cast<int64_t>(rows.count()), "row"),
                            count_of(static_cast<int64_t>(asked), "recording"), rows.truncated() ? ", truncated" : "")};
}

}  // namespace

Tool sql_tool() {
  return {
      .name = "sql",
      .title = "Read-only SQL",
      .description =
          "One SELECT (SQLite) on each recording, or on one; writes are refused. The resource "
          "stalltrace://schema has the tables, stalltrace://queries has recipes. Views such as nccl_events "
          "have names in place of numbers. Times are UTC nanoseconds, by the node's own clock.",
      .input = schema::object(
          {schema::required("sql", schema::text("one statement", 65'536)),
           schema::optional("recording", schema::text("its name in health; without: all, one after the other", 4096)),
           schema::optional("limit", schema::integer(fmt::format("rows, usually {}", kUsualRows), 1, kMostRows)),
           schema::optional("timeout_s", schema::integer(fmt::format("usually {}", kUsualSeconds), 1, kMostSeconds))},
          {}, true),
      .output = schema::object(
          {schema::required("columns", schema::list_of(schema::text())),
           schema::required("recorded_rows",
                            schema::list_of(schema::list_of(schema::anything()),
                                            "values by column: integers beyond 2^53 as text, blobs in hex")),
           schema::required("row_count", schema::integer()), schema::required("truncated", schema::boolean()),
           schema::optional("more", schema::text()), next_field()}),
      .call = call};
}

}  // namespace stalltrace::serve::mcp
