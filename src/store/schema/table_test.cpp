// SPDX-License-Identifier: Apache-2.0
#include "store/schema/table.h"

#include "store/schema/schema.h"
#include "store/schema/select.h"
#include "store/testing/random_row.h"
#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

/// Writes random rows and compares their ends in SQL with those of the traits.
template <StreamedType T>
void expect_same_ends(std::mt19937_64& random) {
  SCOPED_TRACE(EventTraits<T>::kTable);
  Database db = must(Database::open(":memory:", SQLITE_OPEN_READWRITE));
  must(migrate(db));
  Statement insert = must(db.prepare(insert_sql<T>()));
  Statement end =
      must(db.prepare(fmt::format("SELECT {} FROM {} WHERE {} = ?", kEndSql<T>, EventTraits<T>::kTable, kIdColumn<T>)));
  for (int64_t id = 1; id <= 200; ++id) {
    T row = random_row<T>(random, 1);
    constexpr bool kNumbered = EventTraits<T>::kKind == TableKind::kNumbered;
    if constexpr (!kNumbered) {
      row.event_id = id;
    } else {
      insert.bind(1, id);
    }
    each_column(row, Binder(insert.get(), kNumbered ? 2 : 1));
    ASSERT_EQ(insert.step(), SQLITE_DONE);
    insert.reset();
    end.bind(1, id);
    ASSERT_EQ(end.step(), SQLITE_ROW);
    const StatementColumns column(end.get(), 0);
    EXPECT_EQ(column.is_null() ? kForever : column.integer(), EventTraits<T>::end_ns(row)) << text_of(row);
    end.reset();
  }
}

TEST(EndSql, IsTheEndOfTheTraits) {
  std::mt19937_64 random(1);
  for_each_type(kStreamedTypes, [&]<typename T>() { expect_same_ends<T>(random); });
}

}  // namespace
}  // namespace stalltrace::store
