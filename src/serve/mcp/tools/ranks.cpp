// SPDX-License-Identifier: Apache-2.0
// `ranks`: for whom the others wait, and what a rank's threads did.
#include "analysis/profiles/ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "serve/mcp/tools/answers.h"
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int64_t kUsualRanks = 32;
constexpr size_t kMostWithThreads = 4;
constexpr size_t kMostCompetitors = 8;

Json ended(const analysis::Member& member, int64_t zero_ns, const analysis::JobView& job) {
  Json json =
      Json::object({{"time", time_at(job.cluster().clock().to_common(member.node_id, *member.exit_ns), zero_ns)}});
  if (member.exit_code) {
    json.set("exit_code", *member.exit_code);
  }
  if (member.exit_signal) {
    json.set("signal", *member.exit_signal);
  }
  json.set("out_of_memory", member.oom_killed);
  return json;
}

Json row_of(const analysis::JobView& job, const analysis::RankProfile& profile, TimeRange range) {
  const analysis::Member& member = job.cluster().member(profile.member);
  Json json = Json::object({{"who", rank_of(job, profile.member)}, {"program", recorded_text(member.program)}});
  if (job.cluster().attempts() > 1 && member.attempt != analysis::kNoAttempt) {
    json.set("attempt", int64_t{member.attempt} + 1);
  }
  json.set("instances", profile.instances);
  json.set("arrived_last", profile.last);
  json.set("others_waited_for_it_ms", ms(profile.waited_for_ns));
  json.set("waited_for_others_ms", ms(profile.waited_ns));
  json.set("median_behind_first_ms", ms(profile.median_behind_ns));
  json.set("inside_collectives_ms", ms(profile.inside_ns));
  json.set("inside_percent", std::round(1000.0 * static_cast<double>(profile.inside_ns) /
                                        static_cast<double>(std::max<int64_t>(1, range.length()))) /
                                 10);
  json.set("hanging_calls", profile.open);
  json.set("absent_from", profile.absent);
  if (member.exit_ns) {
    json.set("ended", ended(member, job.range().from_ns, job));
  }
  return json;
}

Json threads_of(const analysis::ThreadTimes& times) {
  Json json = Json::object();
  for (size_t kind = 0; kind < times.ns.size(); ++kind) {
    json.set(std::string(to_text(static_cast<WaitKind>(kind))) + "_ms", ms(times.ns[kind]));
  }
  std::vector<std::pair<int64_t, std::string>> competitors;
  for (const auto& [name, ns] : times.ran_instead) {
    competitors.emplace_back(-ns, name);
  }
  std::ranges::sort(competitors);
  json.set("ran_instead", first_of(competitors.size(), kMostCompetitors, [&](size_t i) {
             return Json::object(
                 {{"process", recorded_text(competitors[i].second, 64)}, {"at_least_ms", ms(-competitors[i].first)}});
           }));
  return json;
}

Result<Answer> call(Recordings& recordings, const Json& arguments) {
  ST_ASSIGN(const std::shared_ptr<Snapshot> snapshot, recordings.snapshot());
  ST_ASSIGN(analysis::JobView * job, snapshot->job());
  ST_ASSIGN(const TimeRange range, range_of(arguments, *job));
  std::vector<analysis::RankProfile> profiles = rank_profiles(*job, range);
  if (const std::optional<int64_t> rank = integer_of(arguments, "rank")) {
    std::erase_if(profiles, [&](const analysis::RankProfile& profile) {
      return job->cluster().member(profile.member).rank != rank;
    });
    if (profiles.empty()) {
      return fail(fmt::format("no calls of rank {} at that time", *rank), "ranks without arguments lists them",
                  ErrorKind::kNotFound);
    }
  }
  std::ranges::stable_sort(profiles, std::greater<>(), &analysis::RankProfile::waited_for_ns);
  Json data = Json::object({{"range", range_of_times(range, job->range().from_ns)}});
  Json next = Json::array();
  if (!profiles.empty()) {
    const std::optional<int32_t> first = job->cluster().member(profiles.front().member).rank;
    if (first && integer_of(arguments, "rank") != first) {
      next.push_back(hint("ranks", Json::object({{"rank", *first}}), "what this rank's threads did"));
    }
    if (first && profiles.front().last > 0) {
      next.push_back(hint("slowest", Json::object({{"by", "wait_for_last_rank"}, {"last_rank", *first}}),
                          "the waits that this rank caused"));
    }
  }
  data.set("next", std::move(next));
  const bool with_threads = integer_of(arguments, "rank").has_value() && profiles.size() <= kMostWithThreads;
  std::vector<Json> rows;
  for (const analysis::RankProfile& profile : profiles) {
    rows.push_back(row_of(*job, profile, range));
    if (with_threads) {
      ST_ASSIGN(const analysis::ThreadTimes times, thread_times(*job, profile.member, range));
      if (times.rows > 0) {
        rows.back().set("threads", threads_of(times));
      }
    }
  }
  add_page(data, "ranks", rows.size(), page_of(arguments, kUsualRanks), [&](size_t i) { return rows[i]; });
  return Answer{std::move(data),
                fmt::format("{}, those first that the others waited for longest. This is a profile, no "
                            "verdict: in a healthy job some rank is last, too.",
                            count_of(static_cast<int64_t>(profiles.size()), "rank"))};
}

Json output() {
  const Json end = schema::object(
      {schema::required("time", time_schema()), schema::optional("exit_code", schema::integer()),
       schema::optional("signal", schema::integer()), schema::required("out_of_memory", schema::boolean())});
  std::vector<schema::Field> states;
  for (size_t kind = 0; kind < analysis::ThreadTimes::kKinds; ++kind) {
    states.push_back(schema::required(std::string(to_text(static_cast<WaitKind>(kind))) + "_ms", schema::number()));
  }
  states.push_back(schema::required("ran_instead",
                                    schema::list_of(schema::object({schema::required("process", recorded_text_schema()),
                                                                    schema::required("at_least_ms", schema::number())}),
                                                    "who had the CPU while a thread was runnable")));
  const Json row = schema::object(
      {schema::required("who", rank_schema()), schema::required("program", recorded_text_schema()),
       schema::optional("attempt", schema::integer("of the job, from 1")),
       schema::required("instances", schema::integer()),
       schema::required("arrived_last", schema::integer("instances in which it was the last")),
       schema::required("others_waited_for_it_ms", schema::number("summed over instances, which can overlap")),
       schema::required("waited_for_others_ms", schema::number("likewise")),
       schema::required("median_behind_first_ms", schema::number("its arrival after the first rank's")),
       schema::required("inside_collectives_ms", schema::number("overlaps counted once")),
       schema::required("inside_percent", schema::number("of the time range")),
       schema::required("hanging_calls", schema::integer("that it is inside")),
       schema::required("absent_from",
                        schema::integer("hanging instances that it has not entered although others wait")),
       schema::optional("ended", end),
       schema::optional("threads",
                        schema::object(states, "with rank: states of its recorded threads, summed over them"))});
  return schema::object(
      fields({{schema::required("range", range_schema())}, page_fields("ranks", row), {next_field()}}));
}

}  // namespace

Tool ranks_tool() {
  return {.name = "ranks",
          .title = "Rank profiles",
          .description =
              "Per rank: how often it arrived last, how long the others waited for it and it for them, whether "
              "it hangs or ended; with rank also what its threads did (on CPU, runnable, blocked, disk, "
              "stopped) and which process ran instead.",
          .input = schema::object(fields({{schema::optional("rank", schema::integer({}, 0, INT32_MAX))},
                                          window_arguments(),
                                          page_arguments(kUsualRanks, 500)}),
                                  {}, true),
          .output = output(),
          .call = call};
}

}  // namespace stalltrace::serve::mcp
