// SPDX-License-Identifier: Apache-2.0
#include "serve/rows/spool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/handle.h"
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

TEST(Spool, TakesRoomUntilItHasLeft) {
  const auto room = std::make_shared<SpoolRoom>(10);
  auto first = std::make_unique<Spool>("", room);
  ASSERT_TRUE(first->add("123456"));
  EXPECT_EQ(store::must(first->next()), "123456");
  Spool second("", room);
  EXPECT_TRUE(second.add("1234"));
  EXPECT_FALSE(second.add("5"));
  EXPECT_EQ(second.refused_with(), 503) << "the first one may still be on its way";
  EXPECT_EQ(store::must(first->next()), "") << "it has left";
  Spool third("", room);
  EXPECT_TRUE(third.add("123456"));
  EXPECT_FALSE(third.add("7"));
  first.reset();
  EXPECT_FALSE(Spool("", room).add("8")) << "its room is given back once";
}

TEST(Spool, ThatIsGivenUpGivesItsRoomBack) {
  const auto room = std::make_shared<SpoolRoom>(1 << 20);
  {
    Spool broken("", room);
    ASSERT_TRUE(broken.add(std::string(1 << 20, 'x')));
    EXPECT_FALSE(store::must(broken.next()).empty());
    EXPECT_FALSE(store::must(broken.next()).empty());
  }
  Spool next("", room);
  EXPECT_TRUE(next.add(std::string(1 << 20, 'y')));
  EXPECT_FALSE(next.add("y"));
}

/// Whether the folder's file system takes back a part of a file.
bool frees_parts(const store::TemporaryFolder& folder) {
  const UniqueFd file(::open((folder / "probe").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  return ::ftruncate(file.get(), 1 << 20) == 0 &&
         ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20) == 0;
}

TEST(Spool, WhatHasLeftOfAFileTakesNoRoom) {
  constexpr size_t kPart = 2 << 20;
  const store::TemporaryFolder folder;
  const auto room = std::make_shared<SpoolRoom>(4 * kPart);
  Spool large(folder.path(), room);
  const std::string added = std::string(kPart, 'a') + std::string(kPart, 'b') + std::string(kPart, 'c');
  ASSERT_TRUE(large.add(added));
  EXPECT_FALSE(Spool("", room).add(std::string(2 * kPart, 'd')));
  std::string left;
  while (left.size() <= kPart) {
    left += store::must(large.next());
  }
  EXPECT_EQ(Spool("", room).add(std::string(2 * kPart, 'd')).has_value(), frees_parts(folder));
  EXPECT_TRUE(left + all_of(large) == added);
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
