// SPDX-License-Identifier: Apache-2.0
// The schema, the column lists and docs/recording.md name the same tables and columns.
#include "store/schema/schema.h"

#include <map>
#include <regex>
#include <set>

#include "store/schema/known_schema.h"
#include "store/schema/table.h"
#include "store/testing/test_support.h"
#include "tests/support/source_tree.h"

namespace stalltrace::store {
namespace {

using Columns = std::map<std::string, std::set<std::string>>;

Database empty_recording() {
  Database db = must(Database::open(":memory:", SQLITE_OPEN_READWRITE));
  must(migrate(db));
  return db;
}

Columns columns_of_schema() {
  Database db = empty_recording();
  Statement select = must(
      db.prepare("SELECT m.name, t.name FROM sqlite_schema m, pragma_table_info(m.name) t WHERE m.type IN ('table', "
                 "'view') AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'nccl_events'"));
  Columns columns;
  while (select.step() == SQLITE_ROW) {
    columns[std::string(select.text(0))].emplace(select.text(1));
  }
  return columns;
}

/// "### `table`" headings and the "| `column` |" rows below them.
Columns columns_of_page() {
  std::ifstream page(source_path("docs/recording.md"));
  const std::regex heading("### `(\\w+)`");
  const std::regex row("\\| `(\\w+)` \\|.*");
  Columns columns;
  std::string table;
  std::smatch match;
  for (std::string line; std::getline(page, line);) {
    if (std::regex_match(line, match, heading)) {
      table = match[1];
    } else if (std::regex_match(line, match, row)) {
      EXPECT_TRUE(columns[table].insert(match[1]).second) << table << "." << match[1] << " is there twice";
    }
  }
  return columns;
}

/// The declarations equal SQLite's, unless one migration adds several columns.
TEST(Schema, DeclarationsAreReadFromTheMigrationsAsSqliteKeepsThem) {
  const auto ours = declarations_in(migrations());
  ASSERT_TRUE(ours.has_value()) << "a statement of another form: declarations_by_sqlite is used";
  const Declarations kept = must(declarations_by_sqlite(migrations()));
  EXPECT_EQ(ours->size(), kept.size());
  for (const auto& [name, declarations] : kept) {
    const auto found = ours->find(name);
    ASSERT_NE(found, ours->end()) << std::get<1>(name);
    for (const std::string& declaration : declarations) {
      EXPECT_TRUE(found->second.contains(declaration)) << declaration;
    }
  }
}

TEST(Schema, PageSpecifiesEveryColumnAndNoOther) { EXPECT_EQ(columns_of_page(), columns_of_schema()); }

template <typename T>
void expect_same_columns(const Columns& schema) {
  const std::vector<std::string> names = column_names<T>();
  std::set<std::string> listed(names.begin(), names.end());
  if (EventTraits<T>::kKind == TableKind::kNumbered) {
    listed.insert("id");
  }
  EXPECT_EQ(listed, schema.at(std::string(EventTraits<T>::kTable))) << EventTraits<T>::kTable;
}

TEST(Schema, ColumnListsMatchTheSql) {
  const Columns schema = columns_of_schema();
  for_each_type(kEventTypes, [&]<typename T>() { expect_same_columns<T>(schema); });
}

TEST(Schema, NcclEventsHasTheColumnsOfCollective) {
  Database db = empty_recording();
  EXPECT_EQ(must(db.text("SELECT group_concat(name) FROM pragma_table_info('nccl_events')")),
            must(db.text("SELECT group_concat(name) FROM pragma_table_info('collective')")));
}

TEST(Schema, PageNamesTheVersion) {
  const std::string page = bytes_of(source_path("docs/recording.md"));
  EXPECT_NE(page.find("schema, now " + std::to_string(schema_version()) + "."), std::string::npos);
}

}  // namespace
}  // namespace stalltrace::store
