// SPDX-License-Identifier: Apache-2.0
#include "capture/periodic_tasks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stalltrace::capture {
namespace {

/// Tasks that record their name and the time when they ran.
class Journal {
 public:
  PeriodicTask task(std::string_view name, int64_t period_ns) {
    return {name, period_ns, [this, name](int64_t now_ns) {
              text_ += std::string(name) + std::to_string(now_ns) + " ";
              return Status{};
            }};
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

TEST(PeriodicTasks, RunAtTheirOwnPeriods) {
  Journal journal;
  PeriodicTasks tasks({journal.task("a", 10), journal.task("b", 25)}, 100);
  for (int64_t now_ns = 100; now_ns <= 150; now_ns += 5) {
    ASSERT_TRUE(tasks.run_due(now_ns));
  }
  EXPECT_EQ(journal.text(), "a110 a120 b125 a130 a140 a150 b150 ");
}

TEST(PeriodicTasks, RunInTheOrderOfTheTable) {
  Journal journal;
  PeriodicTasks tasks({journal.task("slow", 20), journal.task("quick", 10)}, 0);
  ASSERT_TRUE(tasks.run_due(20));
  EXPECT_EQ(journal.text(), "slow20 quick20 ");
}

TEST(PeriodicTasks, OneThatIsLateRunsOnceAndAPeriodLaterAgain) {
  Journal journal;
  PeriodicTasks tasks({journal.task("a", 10)}, 0);
  for (const int64_t now_ns : {9, 57, 60, 66, 67}) {
    ASSERT_TRUE(tasks.run_due(now_ns));
  }
  EXPECT_EQ(journal.text(), "a57 a67 ");
}

TEST(PeriodicTasks, AnErrorEndsTheRound) {
  Journal journal;
  PeriodicTasks tasks(
      {journal.task("a", 10), {"fails", 10, [](int64_t) { return Status(fail("no room")); }}, journal.task("b", 10)},
      0);
  const Status status = tasks.run_due(10);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what, "no room");
  EXPECT_EQ(journal.text(), "a10 ");
}

}  // namespace
}  // namespace stalltrace::capture
