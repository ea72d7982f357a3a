// SPDX-License-Identifier: Apache-2.0
// `links`: what TCP recorded of the connections between ranks.
#include "analysis/profiles/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "serve/mcp/tools/answers.h"
#include "serve/mcp/tools/tool.h"

namespace stalltrace::serve::mcp {
namespace {

constexpr int64_t kUsualLinks = 24;

Json row_of(const analysis::JobView& job, const analysis::LinkProfile& link) {
  const analysis::Flow& flow = job.flows().flow(link.example);
  Json json = Json::object({{"src_rank", link.src_rank},
                            {"dst_rank", link.dst_rank},
                            {"src", recorded_text(format_endpoint(flow.src))},
                            {"dst", recorded_text(format_endpoint(flow.dst))},
                            {"connections", link.connections},
                            {"retransmissions", link.retransmissions},
                            {"retransmission_timeouts", link.timeouts},
                            {"recovery_ms", ms(link.recovery_ns)},
                            {"dropped_in_host_packets", link.drops},
                            {"errors", link.errors},
                            {"samples", link.samples}});
  if (link.acked_bytes) {
    json.set("acked_bytes", *link.acked_bytes);
  }
  if (link.median_rtt_us) {
    json.set("median_rtt_ms", static_cast<double>(*link.median_rtt_us) / 1e3);
  }
  if (link.longest_rtt_us) {
    json.set("longest_rtt_ms", static_cast<double>(*link.longest_rtt_us) / 1e3);
  }
  if (link.most_unacked_bytes) {
    json.set("most_unacked_bytes", *link.most_unacked_bytes);
  }
  return json;
}

/// Greater is worse: retransmissions cost time in recovery; without any, the slowest connection comes first.
auto badness(const analysis::LinkProfile& link) {
  return std::tuple(link.recovery_ns, link.retransmissions, link.errors + link.drops, link.longest_rtt_us.value_or(0));
}

Result<Answer> call(Recordings& recordings, const Json& arguments) {
  ST_ASSIGN(const std::shared_ptr<Snapshot> snapshot, recordings.snapshot());
  ST_ASSIGN(analysis::JobView * job, snapshot->job());
  analysis::LinkFilter filter;
  ST_ASSIGN(filter.range, range_of(arguments, *job));
  if (const std::optional<int64_t> rank = integer_of(arguments, "rank")) {
    filter.rank = static_cast<int32_t>(*rank);
  }
  int64_t left_out = 0;
  ST_ASSIGN(std::vector<analysis::LinkProfile> links, link_profiles(*job, filter, &left_out));
  std::ranges::stable_sort(links, [](const auto& a, const auto& b) { return badness(a) > badness(b); });
  Json data = Json::object(
      {{"range", range_of_times(filter.range, job->range().from_ns)}, {"connections_without_ranks", left_out}});
  Json next = Json::array();
  if (!links.empty()) {
    next.push_back(
        hint("findings", Json::object({{"rank", links.front().src_rank}}), "whether the analysis blames this link"));
  }
  data.set("next", std::move(next));
  add_page(data, "links", links.size(), page_of(arguments, kUsualLinks),
           [&](size_t i) { return row_of(*job, links[i]); });
  std::string text = links.empty() ? std::string(
                                         "No TCP connection between two known ranks was recorded: over "
                                         "InfiniBand, RoCE, NVLink and shared memory there is none to see.")
                                   : fmt::format(
                                         "{}, those with the most time in loss recovery first. A "
                                         "retransmission can be needless, and cost nothing.",
                                         count_of(static_cast<int64_t>(links.size()), "link"));
  return Answer{std::move(data), std::move(text)};
}

Json output() {
  const Json row = schema::object(
      {schema::required("src_rank", schema::integer("the sender")), schema::required("dst_rank", schema::integer()),
       schema::required("src", recorded_text_schema("of the connection with the most retransmissions")),
       schema::required("dst", recorded_text_schema()), schema::required("connections", schema::integer()),
       schema::required("retransmissions", schema::integer("segments that the sender repeated")),
       schema::required("retransmission_timeouts", schema::integer("seen in samples: at least these")),
       schema::required("recovery_ms", schema::number("in congestion state recovery or loss, summed over connections")),
       schema::required("dropped_in_host_packets", schema::integer("by a recorded host, on their way to dst_rank")),
       schema::required("errors", schema::integer("resets, socket errors, refused connections")),
       schema::required("samples", schema::integer("of the connections' state: 0: the next ones are not known")),
       schema::optional("acked_bytes", schema::integer("between the first and the last sample")),
       schema::optional("median_rtt_ms", schema::number()), schema::optional("longest_rtt_ms", schema::number()),
       schema::optional("most_unacked_bytes", schema::integer())});
  return schema::object(fields(
      {{schema::required("range", range_schema()),
        schema::required("connections_without_ranks", schema::integer("left out: the rank at an end is not known"))},
       page_fields("links", row),
       {next_field()}}));
}

}  // namespace

Tool links_tool() {
  return {.name = "links",
          .title = "Link profiles",
          .description =
              "Per directed pair of ranks: connections, bytes, retransmissions, time in loss recovery, round "
              "trip times, errors, packets dropped inside hosts. TCP only.",
          .input = schema::object(fields({{schema::optional("rank", schema::integer("at either end", 0, INT32_MAX))},
                                          window_arguments(),
                                          page_arguments(kUsualLinks, 500)}),
                                  {}, true),
          .output = output(),
          .call = call};
}

}  // namespace stalltrace::serve::mcp
