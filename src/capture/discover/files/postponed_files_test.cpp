// SPDX-License-Identifier: Apache-2.0
#include "capture/discover/files/postponed_files.h"

#include <gtest/gtest.h>

namespace stalltrace::capture {
namespace {

constexpr int64_t kNow = 1000 * kNsPerSecond;

FileKey file(uid_t user, const std::string& path, uint32_t minor = 50) {
  return {user, MappedFile{.device_minor = minor, .inode = 7, .path = path}};
}

LibraryReader::Request request(pid_t pid, uid_t user) {
  return {.pid = pid, .user = user, .mapping = {.inode = 7, .path = "/a"}};
}

TEST(PostponedFiles, AFileThatFailsIsLeftAloneLongerEachTime) {
  PostponedFiles files;
  EXPECT_FALSE(files.left_alone_until(file(1, "/a"), kNow));
  EXPECT_EQ(files.failed(file(1, "/a"), kNow), kNow + PostponedFiles::kFirstNs);
  EXPECT_EQ(files.left_alone_until(file(1, "/a"), kNow), kNow + PostponedFiles::kFirstNs);
  EXPECT_FALSE(files.left_alone_until(file(2, "/a"), kNow)) << "another user's";
  EXPECT_FALSE(files.left_alone_until(file(1, "/b"), kNow));
  const int64_t again_ns = kNow + PostponedFiles::kFirstNs;
  EXPECT_FALSE(files.left_alone_until(file(1, "/a"), again_ns));
  EXPECT_EQ(files.failed(file(1, "/a"), again_ns), again_ns + 2 * PostponedFiles::kFirstNs);
  for (int i = 0; i < 40; ++i) {
    files.failed(file(1, "/a"), again_ns);
  }
  EXPECT_EQ(files.left_alone_until(file(1, "/a"), again_ns),
            again_ns + (PostponedFiles::kFirstNs << PostponedFiles::kMostDoublings));
  files.succeeded(file(1, "/a"));
  EXPECT_FALSE(files.left_alone_until(file(1, "/a"), kNow));
}

TEST(PostponedFiles, AFileThatWasNotTriedHasNotFailed) {
  PostponedFiles files;
  int64_t now_ns = kNow;
  for (int i = 0; i < 10; ++i) {
    files.held(file(1, "/a"), now_ns);
    EXPECT_EQ(files.left_alone_until(file(1, "/a"), now_ns), now_ns + PostponedFiles::kSilentNs);
    EXPECT_FALSE(files.left_alone_until(file(1, "/b"), now_ns));
    now_ns += PostponedFiles::kSilentNs;
    EXPECT_FALSE(files.left_alone_until(file(1, "/a"), now_ns));
  }
  EXPECT_EQ(files.failed(file(1, "/a"), now_ns), now_ns + PostponedFiles::kFirstNs);
  now_ns += PostponedFiles::kFirstNs;
  files.held(file(1, "/a"), now_ns);
  now_ns += PostponedFiles::kSilentNs;
  EXPECT_EQ(files.failed(file(1, "/a"), now_ns), now_ns + 2 * PostponedFiles::kFirstNs) << "its failure counts still";
}

/// A user can have a file of its own opened in another's name: that hides no other user's files.
TEST(PostponedFiles, ASilentFileSystemIsLeftAloneForItsUser) {
  PostponedFiles files;
  files.was_silent(file(1, "/a"), kNow);
  EXPECT_EQ(files.left_alone_until(file(1, "/b"), kNow), kNow + PostponedFiles::kSilentNs);
  EXPECT_FALSE(files.left_alone_until(file(1, "/b", 51), kNow));
  EXPECT_FALSE(files.left_alone_until(file(1, "/b"), kNow + PostponedFiles::kSilentNs));
  EXPECT_FALSE(files.left_alone_until(file(2, "/b"), kNow));
  EXPECT_FALSE(files.left_alone_until(file(2, "/a"), kNow));
}

TEST(PostponedFiles, MappingsComeBackWhenTheirTimeHasCome) {
  PostponedFiles files;
  EXPECT_TRUE(files.add(request(12, 1), kNow + 2));
  EXPECT_TRUE(files.add(request(11, 1), kNow + 1));
  EXPECT_TRUE(files.take_due(kNow).empty());
  const auto due = files.take_due(kNow + 2);
  ASSERT_EQ(due.size(), 2U);
  EXPECT_EQ(due[0].pid, 11);
  EXPECT_EQ(due[1].pid, 12);
  EXPECT_EQ(files.size(), 0U);
}

TEST(PostponedFiles, AUserHasSoManyAndReplacesNoOther) {
  PostponedFiles files;
  for (size_t i = 0; i < PostponedFiles::kMostOfUser; ++i) {
    ASSERT_TRUE(files.add(request(1, 1), kNow));
  }
  EXPECT_FALSE(files.add(request(1, 1), kNow));
  EXPECT_TRUE(files.add(request(2, 2), kNow));
  EXPECT_EQ(files.take_due(kNow).size(), PostponedFiles::kMostAtOnce) << "the rings go on filling";
  EXPECT_TRUE(files.add(request(1, 1), kNow));
}

}  // namespace
}  // namespace stalltrace::capture
