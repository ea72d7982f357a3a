// SPDX-License-Identifier: Apache-2.0
// What the answers of tools have in common: text of recordings marked as data, times, ranks, pages, hints; with the
// schema of each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/profiles/job_view.h"
#include "model/finding.h"
#include "model/time_window.h"
#include "serve/json/json.h"
#include "serve/json/schema.h"
#include "serve/recordings.h"

namespace stalltrace::serve::mcp {

/// An answer's lists end before it gets longer than this; some 8,000 tokens.
inline constexpr size_t kAnswerBytes = 24 * 1024;

/// {"recorded_text": "..."}: a name that a process, host or file of the recording chose: printable, at most `most`
/// bytes.
Json recorded_text(std::string_view text, size_t most = 200);
Json recorded_text_schema(std::string_view description = {});
/// {"report_text": "..."}: a sentence of ours that can quote such names.
Json report_text(std::string_view text, size_t most = 1200);
Json report_text_schema(std::string_view description = {});

/// "yes", "no" or "not_known": as where nodes are missing, of which nothing is known.
std::string_view health_word(const Report& report, const Recordings::Gathered* gathered);

/// Milliseconds, to the microsecond.
Json ms(int64_t ns);
/// Seconds, to the microsecond.
Json seconds(int64_t ns);
/// {"utc": "2026-11-22T13:01:03.939854Z", "at_s": 3.002}, at_s from `zero_ns`.
Json time_at(int64_t ns, int64_t zero_ns);
Json time_schema(std::string_view description = {});

/// {"rank": 2, "node": {"recorded_text": "node2"}, "pid": 4711}, what is known of it.
Json rank_of(const analysis::JobView& job, analysis::MemberIndex member);
Json rank_of(const Culprit& culprit);
Json rank_schema(std::string_view description = {});

/// One call that leads on: {"tool", "arguments", "why"}.
Json hint(std::string_view tool, Json arguments, std::string_view why);
schema::Field next_field();

/// The arguments that a tool's list takes, to be joined with its own.
struct PageRequest {
  int64_t limit = 20;
  int64_t offset = 0;
};
std::vector<schema::Field> page_arguments(int64_t usual, int64_t most);
PageRequest page_of(const Json& arguments, int64_t usual);

/// Adds `key`: rows from the offset on, until the limit or kAnswerBytes; total, truncated, and how to get more. At
/// least one row is given where there is one.
void add_page(Json& answer, std::string_view key, size_t total, const PageRequest& page,
              const std::function<Json(size_t)>& row);
/// The fields that add_page adds.
std::vector<schema::Field> page_fields(std::string_view key, Json row);
/// The first `most` of a list inside of a row.
Json first_of(size_t total, size_t most, const std::function<Json(size_t)>& row);

/// Arguments `from` and `to`.
std::vector<schema::Field> window_arguments();
Result<TimeWindow> window_of(const Json& arguments);
/// One time argument; none if it is not given.
Result<std::optional<TimePoint>> time_of(const Json& arguments, std::string_view name);
/// The window on the job's own clock, within what was recorded; fails if it is empty.
Result<TimeRange> range_of(const Json& arguments, const analysis::JobView& job);
Json range_schema();
Json range_of_times(TimeRange range, int64_t zero_ns);

/// The text, number or truth of an argument; `usual` if it is not given.
std::string text_of(const Json& arguments, std::string_view name, std::string_view usual = {});
std::optional<int64_t> integer_of(const Json& arguments, std::string_view name);

/// Joins lists of fields.
std::vector<schema::Field> fields(std::initializer_list<std::vector<schema::Field>> parts);

}  // namespace stalltrace::serve::mcp
