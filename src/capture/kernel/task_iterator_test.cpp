// SPDX-License-Identifier: Apache-2.0
// How many walks over the host's processes the listings of some of them cost.
#include "capture/kernel/task_iterator.h"

#include <gtest/gtest.h>

#include <vector>

namespace stalltrace::capture {
namespace {

/// A kernel that refuses pids with `error`; 0: it takes them.
struct Walks {
  int error = 0;
  std::set<pid_t> refused = {};  // empty: all
  int reads = 1;                 // until a walk is at its end
  int attempts = 0;
  std::vector<std::set<pid_t>> read = {};

  Status of(const std::set<pid_t>& pids) {
    const auto attach = [&](std::optional<pid_t> pid) -> std::unique_ptr<int> {
      ++attempts;
      if (pid && error != 0 && (refused.empty() || refused.contains(*pid))) {
        errno = error;
        return nullptr;
      }
      return std::make_unique<int>(0);
    };
    TaskWalk<int> walk{.left = pids};
    const auto step = [&] {
      return walk_step(walk, "list", attach, [&](int& link, const std::set<pid_t>& wanted) -> Result<bool> {
        read.push_back(wanted);
        return ++link < reads;
      });
    };
    for (;;) {
      const Result<bool> done = step();
      if (!done || *done) {
        return done ? Status{} : std::unexpected(done.error());
      }
    }
  }
};

TEST(TaskIterator, WithoutWalksOfOneProcessOneWalkServesAll) {
  Walks walks{.error = EINVAL};
  EXPECT_TRUE(walks.of({7, 8, 9}));
  EXPECT_EQ(walks.attempts, 2);
  EXPECT_EQ(walks.read, (std::vector<std::set<pid_t>>{{7, 8, 9}}));
}

TEST(TaskIterator, EachProcessIsWalkedAloneAndOneThatEndedIsLeftOut) {
  Walks walks{.error = ESRCH, .refused = {8}};
  EXPECT_TRUE(walks.of({7, 8, 9}));
  EXPECT_EQ(walks.read, (std::vector<std::set<pid_t>>{{7}, {9}}));
}

TEST(TaskIterator, AWalkGoesOnWhereItStood) {
  Walks walks{.reads = 3};
  EXPECT_TRUE(walks.of({7, 8}));
  EXPECT_EQ(walks.attempts, 2);
  EXPECT_EQ(walks.read, (std::vector<std::set<pid_t>>{{7}, {7}, {7}, {8}, {8}, {8}}));
}

TEST(TaskIterator, ARefusalOfAllWalksIsAnError) {
  TaskWalk<int> walk{.left = {7, 8}};
  const auto refuse = [](std::optional<pid_t>) -> std::unique_ptr<int> {
    errno = EPERM;
    return nullptr;
  };
  const auto done = walk_step(walk, "list", refuse, [](int&, const std::set<pid_t>&) -> Result<bool> { return false; });
  ASSERT_FALSE(done);
  EXPECT_TRUE(done.error().what.starts_with("list")) << done.error().what;
}

}  // namespace
}  // namespace stalltrace::capture
