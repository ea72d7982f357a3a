// SPDX-License-Identifier: Apache-2.0
// `stacks`: where ranks were in their Python programs.
#include <fmt/format.h>

#include <algorithm>

#include "analysis/profiles/python_samples.h"
#include "base/clock.h"
#include "base/python_frames.h"
#include "base/text.h"
#include "serve/mcp/tools/answers.h"
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int64_t kUsualStacks = 8;
constexpr int64_t kUsualFrames = 12;
constexpr size_t kMostRanks = 32;
constexpr int64_t kUsualMarginS = 2;

Json row_of(const analysis::JobView& job, const analysis::FoldedStack& stack, size_t frames) {
  const int64_t zero_ns = job.range().from_ns;
  const std::vector<PythonFrame> all = frames_from_text(stack.frames);
  Json json = Json::object({{"samples", stack.samples}});
  std::vector<analysis::MemberIndex> ranks(stack.ranks.begin(), stack.ranks.end());
  json.set("ranks", first_of(ranks.size(), kMostRanks, [&](size_t i) { return rank_of(job, ranks[i]); }));
  json.set("ranks_total", ranks.size());
  json.set("samples_of_child_processes", stack.of_descendants);
  if (!stack.activity.empty()) {
    json.set("waits_for", recorded_text(stack.activity));
  }
  if (!stack.problem.empty()) {
    json.set("problem", recorded_text(stack.problem));
  }
  json.set("first", time_at(stack.first_ns, zero_ns));
  json.set("last", time_at(stack.last_ns, zero_ns));
  if (const PythonLocation location = location_in(all); location.own != nullptr) {
    json.set("own_line", recorded_text(brief_text(*location.own)));
  }
  json.set("frames", first_of(all.size(), frames, [&](size_t i) {
             const PythonFrame& frame = all[i];
             return recorded_text(frames_to_text(std::span(&frame, 1)), 300);
           }));
  json.set("frames_total", all.size());
  return json;
}

/// The requested range; `time` with some seconds around it; else all that was recorded.
Result<TimeRange> asked_range(const Json& arguments, const analysis::JobView& job) {
  ST_ASSIGN(const std::optional<TimePoint> time, time_of(arguments, "time"));
  if (!time) {
    return range_of(arguments, job);
  }
  const int64_t at_ns = time->utc_ns(job.range().from_ns);
  const int64_t margin_ns = integer_of(arguments, "margin_s").value_or(kUsualMarginS) * kNsPerSecond;
  if (at_ns < job.range().from_ns || at_ns > job.range().to_ns) {
    return fail(
        "time is not in the recording",
        fmt::format("it lasts {} from {}", format_duration(job.range().length()), format_utc(job.range().from_ns)),
        ErrorKind::kNotFound);
  }
  return TimeRange{at_ns - margin_ns, at_ns + margin_ns};
}

Result<Answer> call(Recordings& recordings, const Json& arguments) {
  ST_ASSIGN(const std::shared_ptr<Snapshot> snapshot, recordings.snapshot());
  ST_ASSIGN(analysis::JobView * job, snapshot->job());
  ST_ASSIGN(const TimeRange range, asked_range(arguments, *job));
  std::optional<int32_t> rank;
  if (const std::optional<int64_t> asked = integer_of(arguments, "rank")) {
    rank = static_cast<int32_t>(*asked);
  }
  ST_ASSIGN(const analysis::PythonSamples samples, python_samples(*job, range, rank));
  const auto frames = static_cast<size_t>(integer_of(arguments, "frames").value_or(kUsualFrames));
  Json data = Json::object({{"range", range_of_times(range, job->range().from_ns)},
                            {"samples", samples.samples},
                            {"samples_left_out", samples.left_out}});
  Json next = Json::array();
  if (samples.samples == 0) {
    next.push_back(
        hint("sql", Json::object({{"sql", "SELECT count(*), min(timestamp_ns), max(timestamp_ns) FROM python_stack"}}),
             "whether any Python stack was recorded, and when"));
  }
  data.set("next", std::move(next));
  add_page(data, "stacks", samples.stacks.size(), page_of(arguments, kUsualStacks),
           [&](size_t i) { return row_of(*job, samples.stacks[i], frames); });
  std::string text =
      samples.samples == 0
          ? std::string("No Python stacks at that time. A trace reads them only while ranks wait for another one.")
          : fmt::format("{} with {}, the most frequent first.", count_of(samples.samples, "sample"),
                        count_of(static_cast<int64_t>(samples.stacks.size()), "different stack"));
  return Answer{std::move(data), std::move(text)};
}

Json output() {
  const Json row = schema::object(
      {schema::required("samples", schema::integer()), schema::required("ranks", schema::list_of(rank_schema())),
       schema::required("ranks_total", schema::integer()),
       schema::required("samples_of_child_processes", schema::integer("such as data loader workers")),
       schema::optional("waits_for", recorded_text_schema("what the thread waited for")),
       schema::optional("problem", recorded_text_schema("why frames are missing")),
       schema::required("first", time_schema()), schema::required("last", time_schema()),
       schema::optional("own_line", recorded_text_schema("the innermost line outside of installed packages")),
       schema::required("frames", schema::list_of(recorded_text_schema(), "innermost first")),
       schema::required("frames_total", schema::integer())});
  return schema::object(
      fields({{schema::required("range", range_schema()), schema::required("samples", schema::integer()),
               schema::required("samples_left_out", schema::integer())},
              page_fields("stacks", row),
              {next_field()}}));
}

}  // namespace

Tool stacks_tool() {
  return {.name = "stacks",
          .title = "Python stacks",
          .description =
              "Where ranks were in their Python programs around a time, folded by stack. A trace reads stacks "
              "only while ranks wait for another one.",
          .input = schema::object(
              fields({{schema::optional("time",
                                        schema::text("UTC, or +2s from the first collective; or give from, to", 64)),
                       schema::optional("margin_s", schema::integer("around the time; usually 2", 1, 3600)),
                       schema::optional("rank", schema::integer({}, 0, INT32_MAX)),
                       schema::optional("frames", schema::integer("of each stack; usually 12", 1, 64))},
                      window_arguments(),
                      page_arguments(kUsualStacks, 100)}),
              {}, true),
          .output = output(),
          .call = call};
}

}  // namespace stalltrace::serve::mcp
