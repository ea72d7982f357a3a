// SPDX-License-Identifier: Apache-2.0
#include "store/row_table.h"

#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

class KeptRows final : public RowSink {
 public:
  Status columns(const std::vector<std::string>& given) override {
    names = given;
    return {};
  }
  Result<bool> row(std::span<const Value> values) override {
    rows.emplace_back(values.begin(), values.end());
    return true;
  }
  std::vector<std::string> names;
  std::vector<std::vector<Value>> rows;
};

TEST(RowTable, IsAskedInSql) {
  const auto table = must(RowTable::make());
  must(table->columns({"node", "ms", "Ms", "a b", ""}));
  EXPECT_TRUE(
      table->row(std::vector<Value>{std::string("a"), 5.0, int64_t{1}, Blob{"x"}, std::monostate{}}).value_or(false));
  EXPECT_TRUE(
      table->row(std::vector<Value>{std::string("b"), 7.0, int64_t{2}, Blob{"y"}, std::monostate{}}).value_or(false));
  KeptRows rows;
  must(table->query("SELECT node, ms, Ms_2, \"a b\" FROM rows ORDER BY ms DESC", {}, rows));
  ASSERT_EQ(rows.rows.size(), 2U);
  EXPECT_EQ(rows.rows[0], (std::vector<Value>{std::string("b"), 7.0, int64_t{2}, Blob{"y"}}));
  EXPECT_FALSE(table->query("DELETE FROM rows", {}, rows));
  EXPECT_FALSE(table->query("ATTACH 'x' AS y", {}, rows));
  EXPECT_FALSE(table->query("SELECT nothing FROM rows", {}, rows));
  must(table->query("SELECT count(*) FROM rows", {}, rows));
  EXPECT_EQ(rows.rows.back(), (std::vector<Value>{int64_t{2}}));
}

}  // namespace
}  // namespace stalltrace::store
