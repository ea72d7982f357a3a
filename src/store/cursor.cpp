// SPDX-License-Identifier: Apache-2.0
#include "store/cursor.h"

namespace stalltrace {

Result<std::vector<Stretch>> stretches_of(Database& db, std::string_view table, const NodePart& part) {
  ST_ASSIGN(Statement select, db.prepare("SELECT first_id, min_ns, ifnull(end_ns, 9223372036854775807) FROM segment"
                                         " WHERE source = ? AND node_id = ? ORDER BY first_id"));
  select.bind(1, table);
  select.bind(2, static_cast<int64_t>(part.stored));
  std::vector<Stretch> stretches;
  int code = SQLITE_DONE;
  while ((code = select.step()) == SQLITE_ROW) {
    stretches.push_back({select.integer(0), part.end_id, select.integer(1), select.integer(2), kForever});
  }
  if (code != SQLITE_DONE) {
    return fail_sqlite(db.get(), db.path() + ": segments");
  }
  if (stretches.empty()) {  // rows that no writer of ours made: one stretch about which nothing is known
    constexpr int64_t kAny = std::numeric_limits<int64_t>::min();
    return std::vector<Stretch>{{part.first_id, part.end_id, kAny, kForever, kForever}};
  }
  stretches.front().first_id = part.first_id;
  for (size_t i = stretches.size() - 1; i > 0; --i) {
    stretches[i - 1].end_id = stretches[i].first_id;
    stretches[i - 1].later_min_ns = std::min(stretches[i].min_ns, stretches[i].later_min_ns);
  }
  return stretches;
}

}  // namespace stalltrace
