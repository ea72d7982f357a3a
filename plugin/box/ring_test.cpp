// SPDX-License-Identifier: Apache-2.0
#include "plugin/box/ring.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace stalltrace::plugin {
namespace {

/// A box of four records, in memory.
class Ring : public ::testing::Test {
 protected:
  Ring() {
    box_.header = header_.get();
    box_.ring = records_.data();
    box_.ring_mask = records_.size() - 1;
  }
  void append_number(uint64_t number) {
    Event event{};
    event.id = number;
    append(box_, event);
  }

  std::unique_ptr<st_box_header> header_ = std::make_unique<st_box_header>();
  std::vector<Event> records_{4};
  Box box_;
};

TEST_F(Ring, TheNewestOverwritesTheOldest) {
  for (uint64_t number = 0; number < 6; ++number) {
    append_number(number);
  }
  EXPECT_EQ(header_->ring_head, 6U);
  EXPECT_EQ(records_[0].commit, ST_BOX_RING_WHOLE(4));
  EXPECT_EQ(records_[0].id, 4U);
  EXPECT_EQ(records_[2].commit, ST_BOX_RING_WHOLE(2));
}

TEST_F(Ring, ARecordThatIsBeingWrittenIsNotWrittenByAnother) {
  append_number(0);
  records_[1].commit = ST_BOX_RING_WRITING(1);  // a thread that lost its CPU
  records_[1].id = 77;
  header_->ring_head = 5;
  append_number(5);
  EXPECT_EQ(records_[1].commit, ST_BOX_RING_WRITING(1));
  EXPECT_EQ(records_[1].id, 77U);
  EXPECT_EQ(header_->lost[ST_BOX_LOST_LAPPED], 1U);
}

TEST_F(Ring, AWriterThatWasOvertakenLeavesTheNewerRecord) {
  records_[1].commit = ST_BOX_RING_WHOLE(5);
  records_[1].id = 5;
  header_->ring_head = 1;
  append_number(1);
  EXPECT_EQ(records_[1].commit, ST_BOX_RING_WHOLE(5));
  EXPECT_EQ(records_[1].id, 5U);
  EXPECT_EQ(header_->lost[ST_BOX_LOST_LAPPED], 1U);
}

TEST_F(Ring, ClocksAreAnchoredEveryTenSeconds) {
  anchor_clocks(box_);
  const uint64_t first_ns = header_->anchors[0].monotonic_ns;
  EXPECT_EQ(header_->anchored_ns, first_ns);
  refresh_anchor(box_, first_ns + 9'999'999'999);
  EXPECT_EQ(header_->anchors_written, 1U);
  refresh_anchor(box_, first_ns + 10'000'000'000);
  EXPECT_EQ(header_->anchors_written, 2U);
  EXPECT_GT(header_->anchors[1].monotonic_ns, first_ns);
  const auto offset = [this](int anchor) {
    return static_cast<int64_t>(header_->anchors[anchor].realtime_ns - header_->anchors[anchor].monotonic_ns);
  };
  EXPECT_NEAR(static_cast<double>(offset(1) - offset(0)), 0, 1e8) << "the same clocks, a moment later";
}

}  // namespace
}  // namespace stalltrace::plugin
