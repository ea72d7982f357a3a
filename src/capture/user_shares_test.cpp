// SPDX-License-Identifier: Apache-2.0
#include "capture/user_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace stalltrace::capture {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using Kind = UserShares::Kind;

std::map<std::string, uint64_t> losses(const UserShares& shares) {
  std::map<std::string, uint64_t> sums;
  for (const Loss& loss : shares.losses(1)) {
    sums[loss.source] = loss.count;
  }
  return sums;
}

TEST(UserShares, AProcessHasItsShareAndItsUserAShareForAll) {
  UserShares shares;
  const auto& limits = UserShares::limits(Kind::kPeer);
  ASSERT_LT(limits.of_process, limits.of_user);
  int32_t pid = 100;
  for (size_t taken = 0; taken < limits.of_user; taken += limits.of_process) {
    ASSERT_TRUE(shares.begin(++pid, 1000, 1));
    EXPECT_TRUE(shares.take(pid, Kind::kPeer, 0, limits.of_process));
    EXPECT_FALSE(shares.take(pid, Kind::kPeer));
  }
  ASSERT_TRUE(shares.begin(++pid, 1000, 1));
  EXPECT_FALSE(shares.take(pid, Kind::kPeer));
  ASSERT_TRUE(shares.begin(7, 2000, 1));
  EXPECT_TRUE(shares.take(7, Kind::kPeer));  // another user
  EXPECT_THAT(losses(shares), ElementsAre(Pair("share:peer:1000", limits.of_user / limits.of_process + 1)));
  shares.end(101);
  EXPECT_TRUE(shares.take(pid, Kind::kPeer));
}

TEST(UserShares, WhatIsGivenBackCanBeTakenAgain) {
  UserShares shares;
  const size_t most = UserShares::limits(Kind::kCommunicator).of_process;
  ASSERT_TRUE(shares.begin(1, 1000, 1));
  ASSERT_TRUE(shares.take(1, Kind::kCommunicator, 0, most));
  shares.give_back(1, Kind::kCommunicator, most + 5);
  EXPECT_TRUE(shares.take(1, Kind::kCommunicator, 0, most));
}

/// Rows that are never pruned: many at once, then some each second, however soon the processes end.
TEST(UserShares, NewRowsHaveARate) {
  UserShares shares;
  const auto& limits = UserShares::limits(Kind::kConnection);
  const int64_t begun_ns = 5 * kNsPerSecond;
  const auto make = [&](int64_t now_ns) {
    EXPECT_TRUE(shares.begin(1, 1000, 0));
    const bool made = shares.take(1, Kind::kConnection, now_ns);
    shares.end(1);
    return made;
  };
  int64_t made = 0;
  while (make(begun_ns)) {
    ++made;
  }
  EXPECT_LE(std::abs(made - limits.rows_at_once), 2);
  for (made = 0; make(begun_ns + kNsPerSecond);) {
    ++made;
  }
  EXPECT_LE(std::abs(made - limits.rows_per_second), 2);
  EXPECT_THAT(losses(shares), ElementsAre(Pair("share:connection:1000", 2)));
}

TEST(UserShares, AUsersProcessesBeyondItsShareAreNotFollowed) {
  UserShares shares;
  const auto most = static_cast<int32_t>(UserShares::limits(Kind::kProcess).of_user);
  for (int32_t pid = 1; pid <= most; ++pid) {
    ASSERT_TRUE(shares.begin(pid, 1000, 1));
  }
  EXPECT_FALSE(shares.begin(most + 1, 1000, 1));
  EXPECT_FALSE(shares.is_followed(most + 1));
  EXPECT_TRUE(shares.begin(most + 2, 2000, 1));
  EXPECT_TRUE(shares.is_followed(most + 2));
  EXPECT_THAT(losses(shares), ElementsAre(Pair("share:process:1000", 1)));
  shares.end(most + 1);
  EXPECT_TRUE(shares.is_followed(most + 1));  // the next process of that number
}

TEST(UserShares, AProcessThatWasRefusedIsFollowedOnceThereIsRoom) {
  UserShares shares;
  const auto most = static_cast<int32_t>(UserShares::limits(Kind::kProcess).of_user);
  for (int32_t pid = 1; pid <= most; ++pid) {
    ASSERT_TRUE(shares.begin(pid, 1000, 1));
  }
  for (int tries = 0; tries < 3; ++tries) {
    EXPECT_FALSE(shares.begin(most + 1, 1000, 1));
  }
  EXPECT_THAT(losses(shares), ElementsAre(Pair("share:process:1000", 1))) << "one process";
  shares.end(1);
  EXPECT_TRUE(shares.begin(most + 1, 1000, 1));
  EXPECT_TRUE(shares.is_followed(most + 1));
  EXPECT_FALSE(shares.begin(most + 2, 1000, 1)) << "it has taken the room";
}

TEST(UserShares, TheNextProcessOfARefusedOnesNumberIsALossOfItsOwn) {
  UserShares shares;
  const auto most = static_cast<int32_t>(UserShares::limits(Kind::kProcess).of_user);
  for (int32_t pid = 1; pid <= most; ++pid) {
    ASSERT_TRUE(shares.begin(pid, 1000, 1));
    ASSERT_TRUE(shares.begin(10'000 + pid, 2000, 1));
  }
  constexpr int32_t kRefused = 50'000;
  for (int tries = 0; tries < 2; ++tries) {
    EXPECT_FALSE(shares.begin(kRefused, 1000, 1, 7));
  }
  for (int tries = 0; tries < 2; ++tries) {
    EXPECT_FALSE(shares.begin(kRefused, 1000, 1, 8)) << "another start";
  }
  EXPECT_FALSE(shares.begin(kRefused, 2000, 1, 8)) << "another user";
  EXPECT_THAT(losses(shares), ElementsAre(Pair("share:process:1000", 2), Pair("share:process:2000", 1)));
}

TEST(UserShares, AProcessThatWasRefusedIsFollowedAtTheRateOfItsUser) {
  UserShares shares;
  constexpr int64_t kNow = 5 * kNsPerSecond;
  int32_t pid = 1;
  for (; shares.begin(pid, 1000, kNow); ++pid) {
    shares.end(pid);
  }
  EXPECT_FALSE(shares.begin(pid, 1000, kNow));
  EXPECT_TRUE(shares.begin(pid, 1000, kNow + 2 * kNsPerSecond / UserShares::limits(Kind::kProcess).rows_per_second));
  EXPECT_THAT(losses(shares), ElementsAre(Pair("share:process:1000", 1)));
}

TEST(UserShares, WhatAProcessHeldBeforeItWasKnownIsItsUsers) {
  UserShares shares;
  const size_t most = UserShares::limits(Kind::kCommunicator).of_process;
  EXPECT_EQ(shares.user_of(1), kUnknownUser);
  ASSERT_TRUE(shares.take(1, Kind::kCommunicator, 0, most));
  ASSERT_TRUE(shares.begin(1, 1000, 1));
  EXPECT_EQ(shares.user_of(1), 1000U);
  EXPECT_FALSE(shares.take(1, Kind::kCommunicator));
}

/// A user may start programs without end that are not followed, but run instead of another user's ranks.
TEST(UserShares, AUserHasAShareOfWhatIsOfNoFollowedProcess) {
  UserShares shares;
  const auto& limits = UserShares::limits(Kind::kCompetitor);
  for (size_t taken = 0; taken < limits.of_user; ++taken) {
    ASSERT_EQ(shares.take_for_user(1000, Kind::kCompetitor, kNsPerSecond), 1000U);
  }
  EXPECT_EQ(shares.take_for_user(1000, Kind::kCompetitor, kNsPerSecond), std::nullopt);
  EXPECT_EQ(shares.take_for_user(2000, Kind::kCompetitor, kNsPerSecond), 2000U);
  EXPECT_THAT(losses(shares), ElementsAre(Pair("share:competitor:1000", 1)));
  EXPECT_FALSE(shares.has_room_for_user(1000, Kind::kCompetitor));
  shares.give_back_for_user(1000, Kind::kCompetitor);
  EXPECT_TRUE(shares.has_room_for_user(1000, Kind::kCompetitor));
  EXPECT_EQ(shares.take_for_user(1000, Kind::kCompetitor, kNsPerSecond), 1000U);
  shares.lose_for_user(2000, Kind::kCompetitor);
  EXPECT_THAT(losses(shares), ElementsAre(Pair("share:competitor:1000", 1), Pair("share:competitor:2000", 1)));
}

/// One of thousands of users, who has no process that is followed.
TEST(UserShares, WhatAUserHoldsIsNotForgottenForThoseThatCome) {
  UserShares shares;
  for (size_t taken = 0; taken < UserShares::limits(Kind::kCompetitor).of_user; ++taken) {
    ASSERT_TRUE(shares.take_for_user(1000, Kind::kCompetitor, kNsPerSecond));
  }
  for (uint32_t user = 2000; user < 5000; ++user) {
    const auto counted = shares.take_for_user(user, Kind::kCompetitor, kNsPerSecond);
    if (counted) {
      shares.give_back_for_user(*counted, Kind::kCompetitor);
    }
  }
  EXPECT_FALSE(shares.take_for_user(1000, Kind::kCompetitor, kNsPerSecond));
}

/// Nothing says that they have ended.
TEST(UserShares, UnknownProcessesDoNotAddUp) {
  UserShares shares;
  for (int32_t pid = 1; pid <= 100'000; ++pid) {
    ASSERT_TRUE(shares.take(pid, Kind::kCommunicator));
  }
  EXPECT_THAT(losses(shares), IsEmpty());
}

TEST(UserShares, UsersWithoutNumberAreOne) {
  UserShares shares;
  for (uint32_t user = 1; user <= 3000; ++user) {
    const auto pid = static_cast<int32_t>(user);
    ASSERT_TRUE(shares.begin(pid, user, 1));
    shares.lose(pid, Kind::kCall);
    shares.end(pid);
  }
  EXPECT_LE(losses(shares).size(), 1025U);
  EXPECT_GT(losses(shares)["share:call:other"], 1000U);
}

/// Also where there is room for the user's number when its process ends.
TEST(UserShares, WhatAUserWithoutNumberHeldIsGivenBack) {
  UserShares shares;
  constexpr int32_t kUsers = 1024;
  for (int32_t user = 1; user <= kUsers; ++user) {
    ASSERT_TRUE(shares.begin(user, static_cast<uint32_t>(user), 1));
  }
  const auto most = static_cast<int32_t>(UserShares::limits(Kind::kProcess).of_user);
  for (int32_t pid = kUsers + 1; pid <= kUsers + 2 * most; ++pid) {
    ASSERT_TRUE(shares.begin(pid, 5000, 1)) << pid;
    EXPECT_EQ(shares.user_of(pid), kOtherUsers);
    shares.end(1);
    shares.end(pid);
    ASSERT_TRUE(shares.begin(1, 1, 1));
  }
}

}  // namespace
}  // namespace stalltrace::capture
