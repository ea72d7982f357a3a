// SPDX-License-Identifier: Apache-2.0
// `compare`: two time ranges, or two recordings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/profiles/comparison.h"
#include "base/text.h"
#include "serve/mcp/tools/answers.h"
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int64_t kUsualClasses = 20;

Json side_of(const analysis::ClassTimes& times) {
  return Json::object({{"instances", times.instances},
                       {"median_total_ms", ms(times.total_ns)},
                       {"median_wait_for_last_rank_ms", ms(times.late_ns)},
                       {"median_transfer_ms", ms(times.transfer_ns)}});
}

/// b / a, to three digits after the point; none where a took no time.
void set_ratio(Json& row, std::string_view key, int64_t a_ns, int64_t b_ns) {
  if (a_ns > 0) {
    row.set(key, std::round(1e3 * static_cast<double>(b_ns) / static_cast<double>(a_ns)) / 1e3);
  }
}

Json row_of(const analysis::ComparedClass& compared) {
  Json json = Json::object({{"op", to_text(compared.op)}});
  if (compared.bytes) {
    json.set("size_bytes", *compared.bytes);
  }
  if (compared.hash != 0) {
    json.set("communicator", format_hash(compared.hash));
  }
  if (compared.nranks) {
    json.set("ranks", *compared.nranks);
  }
  const bool in_a = compared.a.instances > 0;
  const bool in_b = compared.b.instances > 0;
  if (in_a) {
    json.set("a", side_of(compared.a));
  }
  if (in_b) {
    json.set("b", side_of(compared.b));
  }
  if (in_a && in_b) {
    set_ratio(json, "total_ratio", compared.a.total_ns, compared.b.total_ns);
    set_ratio(json, "transfer_ratio", compared.a.transfer_ns, compared.b.transfer_ns);
    json.set("extra_in_b_ms", ms((compared.b.total_ns - compared.a.total_ns) * compared.b.instances));
  }
  return json;
}

/// One side: its recordings and its time range.
struct Side {
  std::shared_ptr<Snapshot> snapshot;
  analysis::JobView* job = nullptr;
  TimeRange range;
};

Result<Side> side(Recordings& recordings, const Json& arguments, std::string_view name) {
  const Json* given = arguments.find(name);
  static const Json kAll = Json::object();
  const Json& asked = given == nullptr ? kAll : *given;
  Side made;
  ST_ASSIGN(made.snapshot, recordings.snapshot(text_of(asked, "recording")));
  ST_ASSIGN(made.job, made.snapshot->job());
  auto range = range_of(asked, *made.job);
  if (!range) {
    return with_context(name, std::move(range.error()));
  }
  made.range = *range;
  return made;
}

Result<Answer> call(Recordings& recordings, const Json& arguments) {
  if (arguments.find("a")->members()->empty() && arguments.find("b")->members()->empty()) {
    return fail("a and b are the same", "give each another time range, or another recording", ErrorKind::kUsage);
  }
  ST_ASSIGN(const Side a, side(recordings, arguments, "a"));
  ST_ASSIGN(const Side b, side(recordings, arguments, "b"));
  const bool same_job = a.snapshot == b.snapshot;
  const std::vector<analysis::ComparedClass> classes = compare(*a.job, a.range, *b.job, b.range, same_job);
  Json data = Json::object({{"a", range_of_times(a.range, a.job->range().from_ns)},
                            {"b", range_of_times(b.range, b.job->range().from_ns)},
                            {"by_communicator", same_job}});
  Json next = Json::array();
  next.push_back(hint("slowest", Json::object(), "single instances of what got slower"));
  data.set("next", std::move(next));
  add_page(data, "classes", classes.size(), page_of(arguments, kUsualClasses),
           [&](size_t i) { return row_of(classes[i]); });
  const auto in_both =
      std::ranges::count_if(classes, [](const auto& one) { return one.a.instances > 0 && one.b.instances > 0; });
  return Answer{std::move(data),
                fmt::format("{} in both; those first that cost most more in b. Medians hide faults that are rare: "
                            "findings does not.",
                            count_of(in_both, "kind of collective"))};
}

Json output() {
  const Json times = schema::object({schema::required("instances", schema::integer()),
                                     schema::required("median_total_ms", schema::number()),
                                     schema::required("median_wait_for_last_rank_ms", schema::number()),
                                     schema::required("median_transfer_ms", schema::number())});
  const Json row = schema::object(
      {schema::required("op", schema::text()), schema::optional("size_bytes", schema::integer()),
       schema::optional("communicator", schema::text()),
       schema::optional("ranks", schema::integer("of the communicator")), schema::optional("a", times),
       schema::optional("b", times), schema::optional("total_ratio", schema::number("b / a of the medians")),
       schema::optional("transfer_ratio", schema::number()),
       schema::optional("extra_in_b_ms", schema::number("difference of the medians times the "
                                                        "instances in b"))});
  return schema::object(
      fields({{schema::required("a", range_schema()), schema::required("b", range_schema()),
               schema::required("by_communicator", schema::boolean("false: two jobs, compared by op, size and ranks"))},
              page_fields("classes", row),
              {next_field()}}));
}

}  // namespace

Tool compare_tool() {
  std::vector<schema::Field> of_side = window_arguments();
  of_side.push_back(schema::optional("recording", schema::text("its name in health; without: all together", 4096)));
  const Json side_schema = schema::object(of_side, {}, true);
  return {.name = "compare",
          .title = "Compare two time ranges or recordings",
          .description =
              "Medians of each kind of collective in a and b, and their ratio: before and after something "
              "changed, or a good run and a bad one.",
          .input = schema::object(fields({{schema::required("a", side_schema), schema::required("b", side_schema)},
                                          page_arguments(kUsualClasses, 200)}),
                                  {}, true),
          .output = output(),
          .call = call};
}

}  // namespace stalltrace::serve::mcp
