// SPDX-License-Identifier: Apache-2.0
#include "fleet/rows/received_rows.h"

#include <gtest/gtest.h>

#include <random>

#include "analysis/testing/small_job.h"
#include "serve/rows/rows_answer.h"
#include "serve/testing/job_file.h"
#include "store/testing/test_support.h"

namespace stalltrace::fleet {
namespace {

const serve::RowsRequest kRequest{
    .reads = {{.table = "node"}, {.table = "collective"}}, .windows = {}, .shifts_ns = {}};

std::string answer() {
  MemorySource source;
  analysis::small_job::fill(source, {});
  store::TemporaryFolder folder;
  serve::write_recording(folder / "job.db", source);
  const auto recordings = serve::recordings_in_files({folder / "job.db"});
  const auto snapshot = store::must(recordings->own_snapshot("job.db"));
  const serve::HttpAnswer given = store::must(serve::rows_answer(*snapshot, kRequest, {}));
  std::string bytes;
  for (std::string piece = store::must(given.next_piece()); !piece.empty(); piece = store::must(given.next_piece())) {
    bytes += piece;
  }
  return bytes;
}

bool is_taken(std::string_view bytes, ReceivedRows::Limits limits = {}) {
  ReceivedRows rows(kRequest, limits);
  return rows.add(bytes).has_value() && rows.finish().has_value();
}

TEST(ReceivedRows, AreTakenWhole) {
  const std::string bytes = answer();
  ReceivedRows rows(kRequest, {});
  for (const char& byte : bytes) {
    ASSERT_TRUE(rows.add({&byte, 1}).has_value());
  }
  EXPECT_TRUE(rows.finish().has_value());
  EXPECT_EQ(rows.bytes(), std::ssize(bytes));
  EXPECT_EQ(rows.rows_left_out(), 0);
  const auto tables = rows.take_tables();
  EXPECT_GT(tables[0]->rows(), 0);
  EXPECT_EQ(tables[1]->rows(), 400);
}

TEST(ReceivedRows, ThatAreCutOrAddedToAreRefused) {
  const std::string bytes = answer();
  EXPECT_TRUE(is_taken(bytes));
  for (size_t size = 0; size < bytes.size(); size += 7) {
    EXPECT_FALSE(is_taken(std::string_view(bytes).substr(0, size))) << size;
  }
  EXPECT_FALSE(is_taken(bytes + bytes));
  EXPECT_FALSE(is_taken(bytes + "B"));
}

TEST(ReceivedRows, NeverTakeMoreThanTheirLimits) {
  const std::string bytes = answer();
  EXPECT_FALSE(is_taken(bytes, {.bytes = std::ssize(bytes) - 1}));
  EXPECT_FALSE(is_taken(bytes, {.raw_bytes = 1000}));
  EXPECT_FALSE(is_taken(bytes, {.rows = 399}));
}

/// Sums over all nodes must not overflow.
TEST(ReceivedRows, NoNodeSaysThatItLeftOutMoreThanCanBeAdded) {
  for (const std::string_view number : {"9223372036854775807", "-5"}) {
    ReceivedRows rows(kRequest, {});
    const std::string end = "{\"notes\":[],\"rows_left_out\":" + std::string(number) + "}";
    ASSERT_TRUE(rows.add(serve::frame_head(serve::FrameKind::kEnd, end.size()) + end).has_value());
    EXPECT_GE(rows.rows_left_out(), 0);
    EXPECT_LE(rows.rows_left_out(), int64_t{1} << 40);
  }
}

TEST(ReceivedRows, OfAHostThatSendsAnythingAreAnErrorOrRows) {
  const std::string bytes = answer();
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string changed = bytes;
    for (int change = 0; change < 3; ++change) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    is_taken(changed);
  }
}

}  // namespace
}  // namespace stalltrace::fleet
