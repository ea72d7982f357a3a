// SPDX-License-Identifier: Apache-2.0
#include "base/rights/uid_map.h"

#include <gmock/gmock.h>

namespace stalltrace {
namespace {

using testing::FieldsAre;
using testing::IsEmpty;

TEST(UidMap, ARangeALine) {
  EXPECT_THAT(parse_uid_map("         0          0 4294967295\n"), testing::ElementsAre(FieldsAre(0, 0, 4294967295)));
  EXPECT_THAT(parse_uid_map("0 1000 1\n1 100000 65536\n"),
              testing::ElementsAre(FieldsAre(0, 1000, 1), FieldsAre(1, 100000, 65536)));
}

TEST(UidMap, NumbersThatAreNoIdsMakeNoRange) {
  for (const char* line : {"", "0 1000", "0 -1 1", "-1 0 1", "0 0 -1", "0 9223372036854775807 1", "a b c"}) {
    EXPECT_THAT(parse_uid_map(line), IsEmpty()) << line;
  }
}

}  // namespace
}  // namespace stalltrace
