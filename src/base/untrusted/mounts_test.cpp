// SPDX-License-Identifier: Apache-2.0
// A fake host in a folder: its mount tables and namespaces.
#include "base/untrusted/mounts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace stalltrace {
namespace {

namespace fs = std::filesystem;

class MountsTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("mounts_test_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    put(::getpid(), "", "ours");
  }
  void TearDown() override { fs::remove_all(root_); }
  /// Adds a process with these mounts, in the user namespace of this name.
  void put(pid_t pid, const std::string& mounts, const std::string& users) {
    const fs::path folder = root_ / std::to_string(pid);
    fs::create_directories(folder / "ns");
    std::ofstream(folder / "mountinfo") << mounts;
    std::ofstream(root_ / users) << "";
    fs::remove(folder / "ns/user");
    fs::create_symlink(root_ / users, folder / "ns/user");
  }
  fs::path root_;
};

TEST_F(MountsTest, TheKernelsTableSaysWhatAnswersByItself) {
  put(::getpid(),
      "44 43 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
      "45 44 0:50 / /nfs rw - nfs4 server:/home rw,vers=4.2\n"
      "46 44 0:51 / /lustre rw - lustre a@tcp:/b rw\n"
      "47 44 0:52 / /home rw - autofs map rw\n"
      "48 44 0:53 / /scratch rw - fuse.sshfs x rw\n",
      "ours");
  const Procfs procfs(root_.string());
  Mounts mounts(procfs);
  EXPECT_TRUE(mounts.of_device(7, 254, 0).local);
  for (const uint32_t minor : {50U, 51U, 52U, 53U, 54U}) {
    EXPECT_FALSE(mounts.of_device(7, 0, minor).local) << minor;
  }
  EXPECT_EQ(mounts.of_device(7, 0, 50).type, "nfs4");
  EXPECT_EQ(mounts.of_device(7, 0, 54).type, "") << "mounted nowhere: taken away while it hangs, perhaps";
}

TEST_F(MountsTest, AnOverlayIsLocalWhereTheHostMadeIt) {
  put(7, "50 1 0:60 / / rw - overlay overlay rw,lowerdir=/a\n", "ours");
  put(8, "51 1 0:61 / / rw - overlay overlay rw,lowerdir=/fuse\n52 1 0:62 / /t rw - tmpfs t rw\n", "a_users");
  const Procfs procfs(root_.string());
  Mounts mounts(procfs);
  EXPECT_TRUE(mounts.of_device(7, 0, 60).local);
  EXPECT_TRUE(mounts.of_device(7, 0, 60).by_host);
  EXPECT_FALSE(mounts.of_device(8, 0, 61).local) << "its layers may be anything";
  EXPECT_TRUE(mounts.of_device(8, 0, 62).local);
  EXPECT_FALSE(mounts.of_device(8, 0, 62).by_host);
}

TEST_F(MountsTest, AMountByItsNumber) {
  put(::getpid(), "44 43 254:0 / / rw - ext4 /dev/vda rw\n45 44 0:50 / /home rw - fuse.x x rw\n", "ours");
  put(8, "70 1 0:60 / / rw - tmpfs t rw\n", "a_users");
  const Procfs procfs(root_.string());
  Mounts mounts(procfs);
  EXPECT_TRUE(mounts.of_mount(7, 44).local);
  EXPECT_EQ(mounts.of_mount(7, 45).type, "fuse.x");
  EXPECT_TRUE(mounts.of_mount(8, 70).local);
  EXPECT_EQ(mounts.of_mount(7, 71).type, "");
}

/// A table can have 4 MiB, and a user can map files of devices that are in none.
TEST_F(MountsTest, ManyUnknownDevicesCostOneReadingOfATable) {
  put(::getpid(), "44 43 254:0 / / rw - ext4 /dev/vda rw\n", "ours");
  put(7, "", "ours");
  const Procfs procfs(root_.string());
  Mounts mounts(procfs);
  EXPECT_EQ(mounts.of_device(7, 0, 50).type, "");
  put(::getpid(), "45 44 0:51 / /a rw - tmpfs t rw\n", "ours");
  put(7, "46 44 0:52 / /b rw - tmpfs t rw\n", "ours");
  EXPECT_EQ(mounts.of_device(7, 0, 51).type, "");
  EXPECT_EQ(mounts.of_device(7, 0, 52).type, "");
  ::usleep(600'000);
  EXPECT_TRUE(mounts.of_device(7, 0, 51).local) << "mounted a moment ago";
  EXPECT_TRUE(mounts.of_device(7, 0, 52).local);
}

TEST_F(MountsTest, APathIsFollowedOnlyOnThisHost) {
  const std::string here = root_.string();
  put(::getpid(), "1 1 254:0 / / rw - ext4 a rw\n2 1 0:50 / " + here + "/far\\040away rw - nfs4 b rw\n", "ours");
  fs::create_directories(root_ / "near");
  fs::create_symlink("../far away/x", root_ / "near/link");
  fs::create_symlink("link", root_ / "near/twice");
  fs::create_symlink("round", root_ / "near/round");
  const Procfs procfs(here);
  Mounts mounts(procfs);
  EXPECT_TRUE(mounts.is_local_path(here + "/near/file"));
  EXPECT_TRUE(mounts.is_local_path(here + "/nowhere/./../near"));
  EXPECT_FALSE(mounts.is_local_path(here + "/far away"));
  EXPECT_FALSE(mounts.is_local_path(here + "/far away/lib"));
  EXPECT_FALSE(mounts.is_local_path(here + "/near/link"));
  EXPECT_FALSE(mounts.is_local_path(here + "/near/twice/lib"));
  EXPECT_FALSE(mounts.is_local_path(here + "/near/round"));
}

TEST(MountLine, LinesThatAreNone) {
  MountLine line;
  EXPECT_TRUE(parse_mount_line("44 43 254:1 / /a\\040b rw - ext4 x rw", line));
  EXPECT_EQ(line.point, "/a b");
  for (const char* text : {"", " - ", "44 43 254:1 / - ext4", "44 43 254 / / rw - ext4 x", "44 43 a:b / / rw - ext4 x",
                           "44 43 -1:0 / / rw - ext4 x", "44 43 254:0 / / rw ext4 x"}) {
    EXPECT_FALSE(parse_mount_line(text, line)) << text;
  }
}

}  // namespace
}  // namespace stalltrace
