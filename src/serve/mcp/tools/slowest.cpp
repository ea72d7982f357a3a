// SPDX-License-Identifier: Apache-2.0
// `slowest`: the instances that took longest.
#include <fmt/format.h>

#include <charconv>

#include "analysis/profiles/call_ids.h"
#include "base/text.h"
#include "serve/mcp/tools/instances.h"
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int64_t kUsualInstances = 10;

Result<CommHash> hash_of(const std::string& text) {
  CommHash hash = 0;
  const char* const end = text.data() + text.size();
  const bool prefixed = text.starts_with("0x");
  const auto [stop, error] = std::from_chars(text.data() + (prefixed ? 2 : 0), end, hash, 16);
  if (!prefixed || error != std::errc() || stop != end) {
    return fail(fmt::format("communicator '{}' is no hash", text), "write it as slowest gives it: 0x and hex digits",
                ErrorKind::kUsage);
  }
  return hash;
}

analysis::InstanceOrder order_of(const std::string& text) {
  return text == "wait_for_last_rank" ? analysis::InstanceOrder::kLate
         : text == "transfer"         ? analysis::InstanceOrder::kTransfer
                                      : analysis::InstanceOrder::kTotal;
}

Result<Answer> call(Recordings& recordings, const Json& arguments) {
  ST_ASSIGN(const std::shared_ptr<Snapshot> snapshot, recordings.snapshot());
  ST_ASSIGN(analysis::JobView * job, snapshot->job());
  analysis::InstanceFilter filter;
  ST_ASSIGN(filter.range, range_of(arguments, *job));
  if (const std::string hash = text_of(arguments, "communicator"); !hash.empty()) {
    ST_ASSIGN(filter.hash, hash_of(hash));
  }
  filter.op = operation_from_text(text_of(arguments, "op"));
  if (const auto rank = integer_of(arguments, "last_rank")) {
    filter.last_rank = static_cast<int32_t>(*rank);
  }
  const PageRequest page = page_of(arguments, kUsualInstances);
  const std::string by = text_of(arguments, "by", "total");
  const auto most = static_cast<size_t>(page.offset + page.limit);
  const analysis::SlowestInstances slowest = slowest_instances(*job, filter, order_of(by), most);
  Json data = Json::object({{"by", by}, {"range", range_of_times(filter.range, job->range().from_ns)}});
  std::vector<Json> rows;
  for (size_t i = static_cast<size_t>(page.offset); i < slowest.instances.size(); ++i) {
    const analysis::InstanceTimes& times = slowest.instances[i];
    ST_ASSIGN(const std::optional<EventId> event,
              find_call_id(job->source(), job->cluster(), job->timeline(), times.last_sequence, times.number));
    rows.push_back(instance_json(*job, times, event));
  }
  const auto skipped = static_cast<size_t>(page.offset);
  add_page(data, "instances", static_cast<size_t>(slowest.matched), page, [&](size_t i) { return rows[i - skipped]; });
  const size_t given = data.find("instances")->size();
  Json next = Json::array();
  if (!rows.empty() && rows.front().find("event") != nullptr) {
    next.push_back(
        hint("why", Json::object({{"event", *rows.front().find("event")}}), "why this one is or is not a stall"));
  }
  data.set("next", std::move(next));
  return Answer{std::move(data), fmt::format("{} of {} instances, the slowest first. Slow is not yet a stall: ask why.",
                                             given, slowest.matched)};
}

}  // namespace

Tool slowest_tool() {
  return {
      .name = "slowest",
      .title = "Slowest instances",
      .description =
          "The collectives that took longest: as a whole, in the wait for the last rank, or in the transfer "
          "after it. Shows no cause: why does.",
      .input = schema::object(
          fields({{schema::optional("by", schema::one_of({"total", "wait_for_last_rank", "transfer"})),
                   schema::optional("op", schema::one_of(operation_names())),
                   schema::optional("communicator", schema::text("0x...", 20)),
                   schema::optional("last_rank", schema::integer("only where this rank arrived last", 0, INT32_MAX))},
                  window_arguments(),
                  page_arguments(kUsualInstances, 100)}),
          {}, true),
      .output =
          schema::object(fields({{schema::required("by", schema::text()), schema::required("range", range_schema())},
                                 page_fields("instances", schema::object(instance_fields())),
                                 {next_field()}})),
      .call = call};
}

}  // namespace stalltrace::serve::mcp
