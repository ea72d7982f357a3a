// SPDX-License-Identifier: Apache-2.0
#include "store/read/row_group.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/write/zone_map.h"

namespace stalltrace::store {
namespace {

struct Zone {
  int64_t first_id;
  int64_t end_id;
  int64_t min_ns;
  int64_t end_ns;
};

/// False only if the table certainly has no row of the run.
bool has_rows(Database& db, std::string_view table, const NodeRun& run) {
  auto select = db.prepare(fmt::format("SELECT 1 FROM {} WHERE rowid >= ? AND rowid < ? LIMIT 1", table));
  if (!select) {
    return true;
  }
  select->bind(1, run.first_id);
  select->bind(2, run.end_id);
  return select->step() != SQLITE_DONE;
}

/// The zones cover every id of the run that has a row.
Result<std::vector<Zone>> zones_of(Database& db, std::string_view table, const NodeRun& run) {
  ST_ASSIGN(Statement select, db.prepare("SELECT first_id, min_ns, ifnull(end_ns, 9223372036854775807) FROM segment"
                                         " WHERE source = ? AND first_id >= ? AND first_id < ? AND node_id = ?"
                                         " ORDER BY first_id"));
  select.bind(1, table);
  select.bind(2, run.first_id);
  select.bind(3, run.end_id);
  select.bind(4, static_cast<int64_t>(run.id_in_file));
  std::vector<Zone> zones;
  int code = SQLITE_DONE;
  while ((code = select.step()) == SQLITE_ROW) {
    if (!zones.empty() && select.integer(0) <= zones.back().first_id) {  // ids would be read more than once
      return fail(fmt::format("{}: the segments of table {} are out of order", db.path(), table),
                  "the file is damaged: copy it again from where it was made", ErrorKind::kCorrupt);
    }
    zones.push_back({select.integer(0), run.end_id, select.integer(1), select.integer(2)});
  }
  if (code != SQLITE_DONE) {
    return fail_sqlite(db.get(), db.path() + ": segments");
  }
  if (zones.empty() && !has_rows(db, table, run)) {
    return zones;
  }
  if (zones.empty()) {  // another program wrote the rows: one zone without bounds
    return std::vector<Zone>{{run.first_id, run.end_id, std::numeric_limits<int64_t>::min(), kForever}};
  }
  zones.front().first_id = run.first_id;
  for (size_t i = 1; i < zones.size(); ++i) {
    zones[i - 1].end_id = zones[i].first_id;
  }
  return zones;
}

}  // namespace

Result<std::vector<RowGroup>> row_groups_of(Database& db, std::string_view table, const NodeRun& run, TimeRange range) {
  ST_ASSIGN(std::vector<Zone> zones, zones_of(db, table, run));
  std::erase_if(zones, [&](const Zone& zone) { return zone.min_ns >= range.to_ns || zone.end_ns < range.from_ns; });
  std::vector<RowGroup> row_groups;
  row_groups.reserve(zones.size());
  for (const Zone& zone : zones) {
    row_groups.push_back({zone.first_id, zone.end_id, kForever});
  }
  for (size_t i = zones.size(); i-- > 1;) {
    row_groups[i - 1].later_min_ns = std::min(zones[i].min_ns, row_groups[i].later_min_ns);
  }
  return row_groups;
}

}  // namespace stalltrace::store
