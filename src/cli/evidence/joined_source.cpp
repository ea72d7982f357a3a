// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/joined_source.h"

namespace stalltrace::cli {

Status JoinedSource::read_state(AnyRows rows) {
  ST_TRY(first_.read_state(rows));
  return second_.read_state(rows);
}

Status JoinedSource::read_stream(TimeRange range, AnyVisitor visitor) {
  return std::visit(
      [&]<typename T>(const Visitor<T>* visit) -> Status {
        std::vector<T> rows;
        ST_TRY(first_.stream<T>(range, [&](const T& row) { rows.push_back(row); }));
        size_t next = 0;
        const auto visit_until = [&](int64_t time_ns) {
          for (; next < rows.size() && rows[next].timestamp_ns <= time_ns; ++next) {
            (*visit)(rows[next]);
          }
        };
        ST_TRY(second_.stream<T>(range, [&](const T& row) {
          visit_until(row.timestamp_ns);
          (*visit)(row);
        }));
        visit_until(std::numeric_limits<int64_t>::max());
        return {};
      },
      visitor);
}

Status JoinedSource::read_by_node(TimeRange range, const std::set<NodeId>* nodes, AnyVisitor visitor) {
  ST_TRY(stalltrace::read_by_node(first_, range, nodes, visitor));
  return stalltrace::read_by_node(second_, range, nodes, visitor);
}

}  // namespace stalltrace::cli
