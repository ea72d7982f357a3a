// SPDX-License-Identifier: Apache-2.0
#include "fleet/outliers.h"

#include <gmock/gmock.h>

namespace stalltrace::fleet {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(Outliers, AreFarFromTheMedian) {
  const std::vector<double> values{1, 2, 3, 4, 100};  // median 3, median absolute deviation 1
  EXPECT_THAT(robust_z_scores(values), ElementsAre(DoubleNear(-2 / 1.4826, 1e-9), DoubleNear(-1 / 1.4826, 1e-9), 0.0,
                                                   DoubleNear(1 / 1.4826, 1e-9), DoubleNear(97 / 1.4826, 1e-9)));
  const std::vector<double> mostly_equal{5, 5, 5, 9};  // mean absolute deviation 1
  EXPECT_THAT(robust_z_scores(mostly_equal), ElementsAre(0.0, 0.0, 0.0, DoubleNear(4 / 1.2533, 1e-9)));
  EXPECT_THAT(robust_z_scores(std::vector<double>{7, 7}), ElementsAre(0.0, 0.0));
  EXPECT_THAT(robust_z_scores(std::vector<double>{1, 2}),
              ElementsAre(DoubleNear(-1 / 1.4826, 1e-9), DoubleNear(1 / 1.4826, 1e-9)));
  EXPECT_TRUE(robust_z_scores({}).empty());
}

class Names final : public RowSink {
 public:
  Status columns(const std::vector<std::string>& given) override {
    columns_ = given;
    return {};
  }
  Result<bool> row(std::span<const Value> values) override {
    names.push_back(std::get<std::string>(values[0]));
    last.push_back(values.back());
    return true;
  }
  std::vector<std::string> columns_;
  std::vector<std::string> names;
  std::vector<Value> last;
};

TEST(Outliers, RowsComeFarthestFirst) {
  Names names;
  OutlierSink sink("ms", names);
  ASSERT_TRUE(sink.columns({"node", "ms"}));
  using Row = std::vector<Value>;
  for (const Row& row : {Row{std::string("a"), int64_t{10}}, Row{std::string("b"), 11.0},
                         Row{std::string("none"), std::monostate{}}, Row{std::string("c"), int64_t{9}},
                         Row{std::string("slow"), int64_t{90}}, Row{std::string("text"), std::string("x")}}) {
    ASSERT_TRUE(sink.row(row));
  }
  ASSERT_TRUE(sink.finish());
  EXPECT_THAT(names.columns_, ElementsAre("node", "ms", "z"));
  EXPECT_EQ(names.names.front(), "slow");
  EXPECT_THAT(std::vector<std::string>(names.names.end() - 2, names.names.end()), ElementsAre("none", "text"));
  EXPECT_EQ(names.last.back(), Value());
  OutlierSink other("nothing", names);
  EXPECT_FALSE(other.columns({"node", "ms"}));
}

}  // namespace
}  // namespace stalltrace::fleet
