// SPDX-License-Identifier: Apache-2.0
#include "serve/rows/spool.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "store/testing/test_support.h"

namespace stalltrace::serve {
namespace {

std::string all_of(Spool& spool) {
  std::string all;
  for (std::string piece = store::must(spool.next()); !piece.empty(); piece = store::must(spool.next())) {
    all += piece;
  }
  return all;
}

TEST(Spool, GivesWhatWasAddedToIt) {
  const store::TemporaryFolder folder;
  for (const std::string& where : {std::string(), folder.path()}) {
    Spool spool(where, std::make_shared<SpoolRoom>());
    std::string added;
    for (int i = 0; i < 3; ++i) {
      const std::string piece((2 << 20) + i, static_cast<char>('a' + i));
      ASSERT_TRUE(spool.add(piece));
      added += piece;
    }
    EXPECT_TRUE(all_of(spool) == added);
    EXPECT_TRUE(folder.names().empty());
  }
}

TEST(Spool, TakesRoomUntilItIsSent) {
  const auto room = std::make_shared<SpoolRoom>(10);
  auto first = std::make_unique<Spool>("", room);
  ASSERT_TRUE(first->add("123456"));
  EXPECT_EQ(all_of(*first), "123456");
  Spool second("", room);
  EXPECT_TRUE(second.add("1234"));
  EXPECT_FALSE(second.add("5"));
  EXPECT_EQ(second.refused_with(), 503) << "the first one may still be on its way";
  first.reset();
  Spool third("", room);
  EXPECT_TRUE(third.add("123456"));
  EXPECT_FALSE(third.add("7"));
}

TEST(Spool, ThatIsTooLargeAloneIsNotWorthAsking) {
  const auto room = std::make_shared<SpoolRoom>(10);
  Spool spool("", room);
  EXPECT_TRUE(spool.add("1234567890"));
  EXPECT_FALSE(spool.add("1"));
  EXPECT_EQ(spool.refused_with(), 507);
}

TEST(SpoolRoom, HalfOfADiskStaysFree) {
  SpoolRoom room;
  EXPECT_FALSE(room.take_disk(51, 100));
  EXPECT_TRUE(room.take_disk(30, 100));
  EXPECT_TRUE(room.take_disk(20, 70));
  EXPECT_FALSE(room.take_disk(1, 50));
  room.give_back(0, 20);
  EXPECT_TRUE(room.take_disk(20, 70));
  EXPECT_FALSE(room.take_disk(int64_t{1} << 40, 0));
}

}  // namespace
}  // namespace stalltrace::serve
