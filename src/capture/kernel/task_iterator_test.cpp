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
    return walk_tasks("list", pids, attach, [&](const std::unique_ptr<int>&, const std::set<pid_t>& wanted) {
      read.push_back(wanted);
      return Status{};
    });
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

}  // namespace
}  // namespace stalltrace::capture
