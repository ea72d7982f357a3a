// SPDX-License-Identifier: Apache-2.0
// A table's values are what SQLite reads from it.
#include "store/read/table_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "model/memory_source.h"
#include "store/query.h"
#include "store/testing/random_row.h"
#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

constexpr NodeId kValuesNode = 5;

template <typename T>
constexpr const char* value_type() {
  return std::is_same_v<T, int64_t> ? "integer" : std::is_same_v<T, double> ? "real" : "text";
}

/// Rows as text, with the types of their values.
class Collected final : public RowSink {
 public:
  explicit Collected(size_t most = 1'000'000) : most_(most) {}
  Status columns(const std::vector<std::string>& names) override {
    names_ = names;
    return {};
  }
  Result<bool> row(std::span<const Value> values) override {
    std::string& text = rows_.emplace_back();
    for (const Value& value : values) {
      text += std::visit(
          []<typename T>(const T& one) -> std::string {
            if constexpr (std::is_same_v<T, std::monostate>) {
              return "NULL|";
            } else if constexpr (std::is_same_v<T, Blob>) {
              return "blob " + one.bytes + "|";
            } else {
              return fmt::format("{} {}|", value_type<T>(), one);
            }
          },
          value);
    }
    return rows_.size() < most_;
  }
  std::vector<std::string> names_;
  std::vector<std::string> rows_;

 private:
  size_t most_;
};

TEST(TableValues, AreThoseOfTheFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.db";
  std::mt19937_64 random(1);
  {
    const auto writer = must(RecordingWriter::create(path));
    Node node = random_row<Node>(random, kValuesNode);
    node.ended_ns = node.started_ns;
    writer->accept(node);
    for_each_type(kEventTypes, [&]<typename T>() {
      for (int i = 0; i < 20 && !std::is_same_v<T, Node>; ++i) {
        writer->accept(random_row<T>(random, kValuesNode));
      }
    });
    must(writer->close());
  }
  const auto source = must(open_recording(path));
  for (const std::string_view table : tables_of_events()) {
    Collected values;
    must(read_table(*source, table, {}, values));
    std::string columns;
    for (const std::string& name : values.names_) {
      columns += (columns.empty() ? "" : ", ") + name;
    }
    Collected stored;
    must(query_recording(path, fmt::format("SELECT {} FROM {}", columns, table), {}, stored));
    EXPECT_FALSE(values.rows_.empty()) << table;
    std::ranges::sort(values.rows_);
    std::ranges::sort(stored.rows_);
    EXPECT_EQ(values.rows_, stored.rows_) << table;
  }
}

TEST(TableValues, StopWhenTheSinkWantsNoMore) {
  MemorySource source;
  for (int64_t i = 0; i < 5; ++i) {
    source.accept(NetSpan{.node_id = kValuesNode, .timestamp_ns = i});
  }
  Collected two(2);
  must(read_table(source, "net_span", {}, two));
  EXPECT_EQ(two.rows_.size(), 2U);
  Collected none;
  EXPECT_FALSE(read_table(source, "shopping", {}, none));
}

}  // namespace
}  // namespace stalltrace::store
