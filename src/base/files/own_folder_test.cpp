// SPDX-License-Identifier: Apache-2.0
#include "base/files/own_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/files/caller.h"
#include "base/files/new_file.h"
#include "tests/support/golden_text.h"

namespace stalltrace {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kStranger = 65534;

class Folders : public testing::Test {
 protected:
  Folders() : folder_(testing::TempDir() + "own_folder." + std::to_string(::getpid())) {
    fs::create_directory(folder_);
  }
  ~Folders() override {
    ::unsetenv("SUDO_UID");
    ::unsetenv("SUDO_GID");
    fs::remove_all(folder_);
  }

  [[nodiscard]] std::string error_of(const std::string& name) const {
    const auto folder = OwnFolder::claim(folder_ + "/" + name, Readers::kOwner);
    return folder ? "" : folder.error().what + "; " + folder.error().remedy;
  }
  [[nodiscard]] mode_t mode_of(const std::string& name) const {
    struct stat info {};
    return ::stat((folder_ + "/" + name).c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
  }
  static uid_t owner_of(const std::string& path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0 ? info.st_uid : 0;
  }
  std::string folder_;
};

TEST_F(Folders, AreMadeForTheirOwnerAlone) {
  const auto folder = OwnFolder::claim(folder_ + "/a/b", Readers::kOwner);
  ASSERT_TRUE(folder) << folder.error().what;
  EXPECT_TRUE(folder->created());
  EXPECT_EQ(folder->path(), folder_ + "/a/b");
  EXPECT_EQ(mode_of("a/b"), 0700U);
  EXPECT_FALSE(OwnFolder::claim(folder_ + "/a/b", Readers::kOwner)->created()) << "there already, and ours";
  EXPECT_TRUE(OwnFolder::claim(folder_ + "/open", Readers::kAllUsers));
  EXPECT_EQ(mode_of("open"), 0755U);
}

TEST_F(Folders, OthersWhoCanWriteIntoOneAreAReasonToRefuseIt) {
  fs::create_directory(folder_ + "/shared");
  ::chmod((folder_ + "/shared").c_str(), 0775);
  golden::expect_text(error_of("shared"), {{folder_, "FOLDER"}});
  ::chmod((folder_ + "/shared").c_str(), 0755);
  EXPECT_EQ(error_of("shared"), "");
}

TEST_F(Folders, NoLinkIsTakenForOne) {
  fs::create_directory(folder_ + "/target");
  fs::create_directory_symlink(folder_ + "/target", folder_ + "/link");
  golden::expect_text(error_of("link"), {{folder_, "FOLDER"}});
  EXPECT_EQ(error_of("link/inside"), "") << "a link of this user's, on the way, is followed";
  EXPECT_TRUE(fs::is_directory(folder_ + "/target/inside"));
}

TEST_F(Folders, AFolderAboveThatAllUsersCanChangeIsRefused) {
  fs::create_directory(folder_ + "/open");
  ::chmod((folder_ + "/open").c_str(), 0777);
  golden::expect_text(error_of("open/mine"), {{folder_, "FOLDER"}});
  EXPECT_FALSE(fs::exists(folder_ + "/open/mine"));
  ::chmod((folder_ + "/open").c_str(), 01777);
  EXPECT_EQ(error_of("open/mine"), "") << "as /tmp is";
}

TEST_F(Folders, AStrangersAreNotUsed) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  fs::create_directory(folder_ + "/theirs");
  fs::create_directory(folder_ + "/target");
  fs::create_directory_symlink(folder_ + "/target", folder_ + "/link");
  ASSERT_EQ(::lchown((folder_ + "/theirs").c_str(), kStranger, kStranger), 0);
  ASSERT_EQ(::lchown((folder_ + "/link").c_str(), kStranger, kStranger), 0);
  for (const char* name : {"theirs", "theirs/inside", "link/inside"}) {
    golden::expect_text(error_of(name), {{folder_, "FOLDER"}});
  }
  EXPECT_TRUE(fs::is_empty(folder_ + "/target"));
  ::setenv("SUDO_UID", "65534", 1);
  ::setenv("SUDO_GID", "65534", 1);
  EXPECT_EQ(error_of("theirs/inside"), "") << "of who called us through sudo";
}

TEST_F(Folders, AreHandedToWhoCalledUsThroughSudo) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  const auto folder = OwnFolder::claim(folder_ + "/run", Readers::kOwner);
  ASSERT_TRUE(folder && folder->make_inside("profiler", Readers::kOwner));
  ASSERT_TRUE(write_file(folder->path() + "/profiler/file", "x"));
  ASSERT_TRUE(write_file(folder_ + "/roots", "x"));
  fs::create_symlink(folder_ + "/roots", folder->path() + "/link");
  fs::create_hard_link(folder_ + "/roots", folder->path() + "/second-name");
  folder->hand_over();
  EXPECT_EQ(owner_of(folder->path()), 0U) << "no call was made";
  ::setenv("SUDO_UID", "65534", 1);
  ::setenv("SUDO_GID", "65534", 1);
  folder->hand_over();
  EXPECT_EQ(owner_of(folder->path()), kStranger);
  EXPECT_EQ(owner_of(folder->path() + "/profiler/file"), kStranger);
  EXPECT_EQ(owner_of(folder_ + "/roots"), 0U);
}

TEST_F(Folders, TemporaryOnesOfTheDeadAreFoundAndOfTheLivingNot) {
  const auto living = OwnFolder::make_temporary("mine-", 0700, folder_);
  ASSERT_TRUE(living) << living.error().what;
  EXPECT_TRUE(living->path().starts_with(folder_ + "/mine-"));
  fs::create_directories(folder_ + "/mine-dead/inner");
  ASSERT_TRUE(write_file(folder_ + "/mine-dead/inner/file", "x"));
  fs::create_directory(folder_ + "/keep");
  ASSERT_TRUE(write_file(folder_ + "/keep/file", "x"));
  fs::create_directory_symlink(folder_ + "/keep", folder_ + "/mine-link");
  fs::create_directory_symlink(folder_ + "/keep", folder_ + "/mine-dead/link");
  for_each_left_behind(folder_, "mine-", [](const OwnFolder& folder) { remove_with_contents(folder); });
  EXPECT_TRUE(fs::exists(living->path()));
  EXPECT_FALSE(fs::exists(folder_ + "/mine-dead"));
  EXPECT_TRUE(fs::exists(folder_ + "/keep/file"));
}

TEST_F(Folders, AFileReplacesALinkAndDoesNotFollowIt) {
  ASSERT_TRUE(write_file(folder_ + "/victim", "precious"));
  fs::create_symlink(folder_ + "/victim", folder_ + "/name");
  ASSERT_TRUE(write_file(folder_ + "/name", "new"));
  EXPECT_EQ(read_file(folder_ + "/victim").value_or(""), "precious");
  EXPECT_EQ(read_file(folder_ + "/name").value_or(""), "new");
  EXPECT_EQ(mode_of("name"), 0600U);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2) << "nothing else is left";
}

TEST_F(Folders, ANewFileHasNoNameUntilItIsWholeAndReplacesNoOther) {
  {
    auto file = NewFile::create(folder_ + "/name", 0644);
    ASSERT_TRUE(file) << file.error().what;
    ASSERT_TRUE(file->append("half"));
    EXPECT_FALSE(fs::exists(folder_ + "/name"));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  auto first = NewFile::create(folder_ + "/name", 0644);
  auto second = NewFile::create(folder_ + "/name", 0644);
  ASSERT_TRUE(first && second && first->append("first"));
  EXPECT_TRUE(first->publish(IfThere::kFail));
  EXPECT_FALSE(second->publish(IfThere::kFail));
  EXPECT_EQ(read_file(folder_ + "/name").value_or(""), "first");
  EXPECT_EQ(mode_of("name"), 0644U);
}

/// A limit on the size of files ends a write as a full disk does.
TEST_F(Folders, AFullDiskIsAnErrorAndLeavesNothing) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status fits = write_file(folder_ + "/name", std::string(4096, 'x'));
  const Status full = write_file(folder_ + "/name", std::string(8192, 'y'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(fits);
  EXPECT_FALSE(full);
  EXPECT_EQ(read_file(folder_ + "/name").value_or(""), std::string(4096, 'x')) << "as it was";
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(Folders, WhatCanNotBeStoredIsAnError) {
  EXPECT_TRUE(store_and_close(UniqueFd(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), folder_));
  EXPECT_FALSE(store_and_close(UniqueFd(::open(folder_.c_str(), O_PATH | O_CLOEXEC)), folder_)) << "fsync is refused";
}

}  // namespace
}  // namespace stalltrace
