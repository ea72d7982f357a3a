// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp/tools/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "model/parse/time_point.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int64_t kMostOffset = 10'000;  // slowest keeps all instances before it
constexpr const char* kTimeForm = "UTC as 2026-01-31T02:47:00Z, or +2s from the first collective";

Json wrapped(std::string_view key, std::string_view text, size_t most) {
  return Json::object({{std::string(key), cut_text(printable(text), most)}});
}

Json wrapped_schema(std::string key, std::string_view description) {
  return schema::object({schema::required(std::move(key), schema::text())}, description);
}

Json micros(int64_t ns, double divisor) { return std::round(static_cast<double>(ns) / 1e3) * 1e3 / divisor; }

}  // namespace

Json recorded_text(std::string_view text, size_t most) { return wrapped("recorded_text", text, most); }
Json recorded_text_schema(std::string_view description) { return wrapped_schema("recorded_text", description); }
Json report_text(std::string_view text, size_t most) { return wrapped("report_text", text, most); }
Json report_text_schema(std::string_view description) { return wrapped_schema("report_text", description); }

std::string_view health_word(const Report& report, const Recordings::Gathered* gathered) {
  const bool missing = gathered != nullptr && !gathered->missing.empty();
  const std::optional<bool> health = report.health();
  return !health || (*health && missing) ? "not_known" : *health ? "yes" : "no";
}

Json ms(int64_t ns) { return micros(ns, 1e6); }
Json seconds(int64_t ns) { return micros(ns, 1e9); }

Json time_at(int64_t ns, int64_t zero_ns) {
  return Json::object({{"utc", format_utc(ns)}, {"at_s", seconds(ns - zero_ns)}});
}

Json time_schema(std::string_view description) {
  return schema::object({schema::required("utc", schema::text()), schema::required("at_s", schema::number())},
                        description);
}

Json rank_of(const analysis::JobView& job, analysis::MemberIndex index) {
  if (index == analysis::kNoMember || index >= job.cluster().members().size()) {
    return Json::object();
  }
  const analysis::Member& member = job.cluster().member(index);
  return rank_of(Culprit{.node = member.node, .rank = member.rank, .pid = member.pid});
}

Json rank_of(const Culprit& culprit) {
  Json json = Json::object();
  if (culprit.rank) {
    json.set("rank", *culprit.rank);
  }
  if (!culprit.node.empty()) {
    json.set("node", recorded_text(culprit.node));
  }
  if (culprit.pid != 0) {
    json.set("pid", culprit.pid);
  }
  return json;
}

Json rank_schema(std::string_view description) {
  return schema::object({schema::optional("rank", schema::integer()), schema::optional("node", recorded_text_schema()),
                         schema::optional("pid", schema::integer())},
                        description);
}

Json hint(std::string_view tool, Json arguments, std::string_view why) {
  return Json::object({{"tool", tool}, {"arguments", std::move(arguments)}, {"why", why}});
}

schema::Field next_field() {
  return schema::optional("next", schema::list_of(schema::object({schema::required("tool", schema::text()),
                                                                  schema::required("arguments", schema::object({})),
                                                                  schema::required("why", schema::text())}),
                                                  "calls that lead on"));
}

std::vector<schema::Field> page_arguments(int64_t usual, int64_t most) {
  return {schema::optional("limit", schema::integer(fmt::format("rows, usually {}", usual), 1, most)),
          schema::optional("offset", schema::integer("rows to skip", 0, kMostOffset))};
}

PageRequest page_of(const Json& arguments, int64_t usual) {
  return {.limit = integer_of(arguments, "limit").value_or(usual),
          .offset = integer_of(arguments, "offset").value_or(0)};
}

void add_page(Json& answer, std::string_view key, size_t total, const PageRequest& page,
              const std::function<Json(size_t)>& row) {
  constexpr size_t kReserve = 1024;  // of hints and the like, which are added later
  size_t bytes = answer.dump().size() + kReserve;
  Json rows = Json::array();
  const size_t begin = std::min(total, static_cast<size_t>(page.offset));
  const size_t end = std::min(total, begin + static_cast<size_t>(page.limit));
  size_t next = begin;
  for (; next < end; ++next) {
    Json one = row(next);
    bytes += one.dump().size() + 1;
    if (bytes > kAnswerBytes && next > begin) {
      break;
    }
    rows.push_back(std::move(one));
  }
  answer.set(key, std::move(rows));
  answer.set("total", total);
  answer.set("truncated", next < total);
  if (next < total) {
    answer.set("more", fmt::format("{} of {} given; call again with offset {}, or narrow the arguments", next - begin,
                                   total, next));
  }
}

std::vector<schema::Field> page_fields(std::string_view key, Json row) {
  return {schema::required(std::string(key), schema::list_of(std::move(row))),
          schema::required("total", schema::integer("rows that there are")),
          schema::required("truncated", schema::boolean()),
          schema::optional("more", schema::text("how to get the other rows"))};
}

Json first_of(size_t total, size_t most, const std::function<Json(size_t)>& row) {
  Json rows = Json::array();
  for (size_t i = 0; i < std::min(total, most); ++i) {
    rows.push_back(row(i));
  }
  return rows;
}

std::vector<schema::Field> window_arguments() {
  return {schema::optional("from", schema::text(std::string("start: ") + kTimeForm, 64)),
          schema::optional("to", schema::text("end, likewise", 64))};
}

Result<std::optional<TimePoint>> time_of(const Json& arguments, std::string_view name) {
  const Json* given = arguments.find(name);
  if (given == nullptr) {
    return std::nullopt;
  }
  auto time = parse_time_point(*given->text());
  return time ? Result<std::optional<TimePoint>>(*time) : with_context(name, std::move(time.error()));
}

Result<TimeWindow> window_of(const Json& arguments) {
  TimeWindow window;
  ST_ASSIGN(window.from, time_of(arguments, "from"));
  ST_ASSIGN(window.to, time_of(arguments, "to"));
  return window;
}

Result<TimeRange> range_of(const Json& arguments, const analysis::JobView& job) {
  ST_ASSIGN(const TimeWindow window, window_of(arguments));
  const TimeRange asked = window.at(job.range().from_ns);
  // The end of a recording is its last event, which belongs to it.
  const int64_t last_ns = job.range().to_ns < kForever ? job.range().to_ns + 1 : kForever;
  const TimeRange range{std::max(asked.from_ns, job.range().from_ns), std::min(asked.to_ns, last_ns)};
  if (range.from_ns >= range.to_ns) {
    return fail("nothing was recorded between from and to",
                fmt::format("the recording lasts {} from {}", format_duration(job.range().length()),
                            format_utc(job.range().from_ns)),
                ErrorKind::kNotFound);
  }
  return range;
}

Json range_schema() {
  return schema::object({schema::required("from", time_schema()), schema::required("to", time_schema())});
}

Json range_of_times(TimeRange range, int64_t zero_ns) {
  return Json::object({{"from", time_at(range.from_ns, zero_ns)}, {"to", time_at(range.to_ns, zero_ns)}});
}

std::string text_of(const Json& arguments, std::string_view name, std::string_view usual) {
  const Json* given = arguments.find(name);
  return std::string(given == nullptr ? usual : std::string_view(*given->text()));
}

std::optional<int64_t> integer_of(const Json& arguments, std::string_view name) {
  const Json* given = arguments.find(name);
  return given == nullptr ? std::nullopt : std::optional(*given->integer());
}

std::vector<schema::Field> fields(std::initializer_list<std::vector<schema::Field>> parts) {
  std::vector<schema::Field> joined;
  for (const std::vector<schema::Field>& part : parts) {
    joined.insert(joined.end(), part.begin(), part.end());
  }
  return joined;
}

}  // namespace stalltrace::serve::mcp
