// SPDX-License-Identifier: Apache-2.0
#include "plugin/box/box_file.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "plugin/box/ring.h"

namespace stalltrace::plugin {
namespace {

TEST(Room, SharedMemoryIsNcclsFirst) {
  constexpr uint64_t kMiB = 1 << 20;
  EXPECT_EQ(room_for_a_box(64 * kMiB, false), 4 * kMiB);
  EXPECT_EQ(room_for_a_box(64 * kMiB, true), 0U) << "a container's /dev/shm";
  EXPECT_EQ(room_for_a_box(256 * kMiB, true), 0U);
  EXPECT_EQ(room_for_a_box(272 * kMiB, true), kMiB);
  EXPECT_EQ(room_for_a_box(1024 * kMiB, true), 48 * kMiB);
  uint64_t left = 512 * kMiB;
  for (int process = 0; process < 64; ++process) {
    left -= room_for_a_box(left, true);
  }
  EXPECT_GE(left, 256 * kMiB) << "however many processes";
}

TEST(FileSystem, OnlyThoseThatNeitherWaitNorFail) {
  constexpr uint64_t kXfs = 0x58465342;
  for (const uint64_t type : {uint64_t{TMPFS_MAGIC}, uint64_t{RAMFS_MAGIC}, uint64_t{EXT4_SUPER_MAGIC}, kXfs}) {
    EXPECT_TRUE(file_system_suits(type)) << std::hex << type;
  }
  constexpr uint64_t kFuse = 0x65735546;
  constexpr uint64_t kLustre = 0x0BD00BD0;
  constexpr uint64_t kZfs = 0x2FC12FC1;
  constexpr uint64_t kGpfs = 0x47504653;
  for (const uint64_t type : {uint64_t{NFS_SUPER_MAGIC}, uint64_t{BTRFS_SUPER_MAGIC}, kFuse, kLustre, kZfs, kGpfs}) {
    EXPECT_FALSE(file_system_suits(type)) << std::hex << type;
  }
}

TEST(FileSystem, AnotherGetsNoFile) {
  Box box;
  BoxError error;
  char path[kPathBytes];
  EXPECT_FALSE(create_box({.folder = "/sys"}, &box, path, &error));
  EXPECT_STREQ(path, "/sys");
  EXPECT_STREQ(error.what, "neither tmpfs, ext4 nor xfs:");
}

class AFile : public ::testing::Test {
 protected:
  AFile() {
    char name[] = "/dev/shm/stalltrace-test-XXXXXX";
    folder_ = mkdtemp(name);
    BoxError error;
    EXPECT_TRUE(create_box({.folder = folder_.c_str(), .limit_bytes = 4 << 20}, &box_, path_, &error)) << error.what;
  }
  ~AFile() override {
    unmap_box(box_);
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] int64_t bytes_in_use() const {
    struct stat info {};
    return fstat(box_.fd, &info) == 0 ? info.st_blocks * 512 : -1;
  }
  /// Of the ring, as the file has it.
  [[nodiscard]] uint64_t id_in_file(uint64_t record) const {
    Event event{};
    EXPECT_EQ(
        pread(box_.fd, &event, sizeof event, static_cast<off_t>(box_.header->ring_offset + record * sizeof event)),
        static_cast<ssize_t>(sizeof event));
    return event.id;
  }

  std::string folder_;
  char path_[kPathBytes] = "";
  Box box_;
};

TEST_F(AFile, WhatIsWrittenLateTakesNoRoomInTheFile) {
  append(box_, Event{.id = 77});
  close_box(box_);
  const int64_t closed = bytes_in_use();
  EXPECT_LT(closed, static_cast<int64_t>(box_.header->file_bytes) / 2);
  box_.ring[box_.ring_mask].id = 5;
  EXPECT_EQ(bytes_in_use(), closed) << "on a full file system this would have been a SIGBUS";
  EXPECT_EQ(id_in_file(box_.ring_mask), 0U);
  EXPECT_EQ(id_in_file(0), 77U);
}

TEST_F(AFile, ReopenedItIsWholeAgain) {
  const int64_t open = bytes_in_use();
  for (int round = 0; round < 3; ++round) {
    close_box(box_);
    ASSERT_TRUE(reopen_box(box_));
    EXPECT_EQ(bytes_in_use(), open);
    box_.ring[box_.ring_mask].id = 9;
    EXPECT_EQ(id_in_file(box_.ring_mask), 9U);
  }
}

}  // namespace
}  // namespace stalltrace::plugin
