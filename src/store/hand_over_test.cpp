// SPDX-License-Identifier: Apache-2.0
#include "store/hand_over.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

class HandOver : public ::testing::Test {
 protected:
  HandOver() { std::filesystem::create_directory(shared_); }

  std::string record(const std::string& file, const std::string& node, int rows) {
    const std::string path = folder_ / file;
    auto writer = must(RecordingWriter::create(path));
    Node row = node_row(3, node);
    row.started_ns = 1'800'000'000LL * 1'000'000'000;
    writer->accept(row);
    for (int i = 0; i < rows; ++i) {
      writer->accept(collective_row(3, static_cast<uint64_t>(i) + 1, 1'000 + i, 5));
    }
    must(writer->close());
    return path;
  }
  size_t files() const {
    const auto all = std::filesystem::directory_iterator(shared_);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

  TemporaryFolder folder_;
  std::string shared_ = folder_ / "shared";
};

TEST_F(HandOver, ACopyUnderTheNameOfItsNode) {
  const std::string path = record("stalltrace.db", "node7", 10);
  const HandedOver first = must(hand_over(path, shared_));
  EXPECT_EQ(first.path, shared_ + "/node7-20270115T080000Z.db");
  EXPECT_FALSE(first.was_there);
  EXPECT_TRUE(bytes_of(first.path) == bytes_of(path));
  struct stat status {};
  ASSERT_EQ(::stat(first.path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  const HandedOver again = must(hand_over(path, shared_));
  EXPECT_EQ(again.path, first.path);
  EXPECT_TRUE(again.was_there);
  EXPECT_EQ(files(), 1U);
}

TEST_F(HandOver, NothingIsReplaced) {
  const HandedOver first = must(hand_over(record("a.db", "node7", 10), shared_));
  const std::string before = bytes_of(first.path);
  const HandedOver second = must(hand_over(record("b.db", "node7", 20), shared_));
  EXPECT_EQ(second.path, shared_ + "/node7-20270115T080000Z-2.db");
  EXPECT_TRUE(bytes_of(first.path) == before);
  EXPECT_EQ(files(), 2U);
}

/// Of others who may write to the folder: one that leads nowhere, and one to the recording itself.
TEST_F(HandOver, LinksAreNoCopies) {
  const std::string path = record("a.db", "node7", 10);
  const std::string name = shared_ + "/node7-20270115T080000Z";
  std::filesystem::create_symlink(folder_ / "none.db", name + ".db");
  std::filesystem::create_symlink(path, name + "-2.db");
  const HandedOver made = must(hand_over(path, shared_));
  EXPECT_EQ(made.path, name + "-3.db");
  EXPECT_FALSE(made.was_there);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none.db"));
}

TEST_F(HandOver, ANameIsNoPath) {
  const HandedOver made = must(hand_over(record("a.db", "../../etc/x y", 1), shared_));
  EXPECT_EQ(made.path, shared_ + "/_._.._etc_x_y-20270115T080000Z.db");
}

TEST_F(HandOver, WhatCannotBe) {
  const std::string path = record("a.db", "node7", 1);
  EXPECT_FALSE(hand_over(path, folder_ / "none"));
  EXPECT_FALSE(hand_over(path, path));
  EXPECT_FALSE(hand_over(folder_ / "none.db", shared_));
  EXPECT_EQ(files(), 0U);
}

}  // namespace
}  // namespace stalltrace::store
