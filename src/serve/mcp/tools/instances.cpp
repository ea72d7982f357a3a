// SPDX-License-Identifier: Apache-2.0
#include "serve/mcp/tools/instances.h"

namespace stalltrace::serve::mcp {

constexpr size_t kMostAbsent = 16;

Json instance_json(const analysis::JobView& job, const analysis::InstanceTimes& times, std::optional<EventId> event) {
  const int64_t zero_ns = job.range().from_ns;
  Json json = Json::object();
  if (event) {
    json.set("event", format_event_id(*event));
  }
  json.set("op", to_text(times.op));
  if (times.bytes) {
    json.set("size_bytes", *times.bytes);
  }
  if (times.hash != 0) {
    json.set("communicator", format_hash(times.hash));
  }
  json.set("number", times.number);
  if (times.attempt && job.cluster().attempts() > 1) {
    json.set("attempt", *times.attempt);
  }
  json.set("start", time_at(times.first_arrival_ns, zero_ns));
  json.set("total_ms", ms(times.total_ns));
  json.set("wait_for_last_rank_ms", ms(times.late_ns));
  if (times.transfer_ns) {
    json.set("transfer_ms", ms(*times.transfer_ns));
  }
  json.set("hangs", times.hung);
  json.set("ranks", times.ranks);
  json.set("last_rank", rank_of(job, times.last));
  if (!times.absent.empty()) {
    json.set("absent",
             first_of(times.absent.size(), kMostAbsent, [&](size_t i) { return rank_of(job, times.absent[i]); }));
    json.set("absent_total", times.absent.size());
  }
  json.set("warming_up", times.warming_up);
  return json;
}

std::vector<schema::Field> instance_fields() {
  return {schema::optional("event", schema::text("one of its calls, for the tool why")),
          schema::required("op", schema::text()),
          schema::optional("size_bytes", schema::integer()),
          schema::optional("communicator", schema::text()),
          schema::required("number", schema::integer("on its communicator")),
          schema::optional("attempt", schema::integer("of the job, from 1")),
          schema::required("start", time_schema("the first arrival")),
          schema::required("total_ms", schema::number("from the first arrival to the end; if it hangs, until now")),
          schema::required("wait_for_last_rank_ms", schema::number("from the middle arrival to the last")),
          schema::optional("transfer_ms", schema::number("after the last arrival; missing: its end is not known")),
          schema::required("hangs", schema::boolean()),
          schema::required("ranks", schema::integer("that entered it")),
          schema::required("last_rank", rank_schema("arrived last")),
          schema::optional("absent", schema::list_of(rank_schema(), "have not come although others wait")),
          schema::optional("absent_total", schema::integer()),
          schema::required("warming_up", schema::boolean("among the first of its communicator: slow by nature"))};
}

std::vector<std::string_view> operation_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kOperationCount; ++i) {
    if (moves_data(static_cast<Operation>(i))) {
      names.push_back(to_text(static_cast<Operation>(i)));
    }
  }
  return names;
}

}  // namespace stalltrace::serve::mcp
