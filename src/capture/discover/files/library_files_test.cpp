// SPDX-License-Identifier: Apache-2.0
// This program maps a library; a made-up /proc says on what file system it lies, and whose processes there are.
#include "capture/discover/files/library_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "model/events/loss_sources.h"
#include "tests/support/golden_text.h"

namespace stalltrace::capture {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLongNs = 20 * kNsPerSecond;

class LibraryFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("library_files_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    fs::copy_file(std::string(STALLTRACE_TEST_LIBRARIES) + "/libcollective_fixture.so", library());
    const UniqueFd fd(::open(library().c_str(), O_RDONLY | O_CLOEXEC));
    bytes_ = fs::file_size(library());
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd.get(), 0);
    ASSERT_NE(memory_, MAP_FAILED);
    for (const MappedFile& one : Procfs().executable_mappings(::getpid()).value_or(std::vector<MappedFile>())) {
      if (one.start == reinterpret_cast<uint64_t>(memory_)) {
        mapping_ = one;
      }
    }
    ASSERT_NE(mapping_.inode, 0U);
  }
  void TearDown() override {
    ::munmap(memory_, bytes_);
    fs::remove_all(root_);
  }
  [[nodiscard]] std::string library() const { return (root_ / "libnccl.so.2").string(); }

  /// The process is this user's; the library lies on a file system of this type.
  Procfs host(const std::string& type, const std::vector<pid_t>& pids = {::getpid()}) {
    for (const pid_t pid : pids) {
      const fs::path folder = root_ / std::to_string(pid);
      fs::create_directories(folder);
      std::ofstream(folder / "status") << "Uid:\t" << kUser << "\t" << kUser << "\t" << kUser << "\t" << kUser << "\n";
      std::ofstream(folder / "stat") << pid << " (x) S 1";
      for (const char* name : {"map_files", "maps", "ns", "root"}) {
        fs::remove(folder / name);
        fs::create_symlink(fs::path("/proc") / std::to_string(pid) / name, folder / name);
      }
      std::ofstream(folder / "mountinfo")
          << "1 1 " << mapping_.device_major << ":" << mapping_.device_minor << " / / rw - " << type << " a rw\n";
    }
    return Procfs(root_.string());
  }
  /// Until it is found, or all has been read.
  std::optional<LibraryFiles::Found> found_in_time(LibraryFiles& files, pid_t pid) {
    auto found = files.inspect(pid, mapping_);
    files.wait_for_files(
        [&](pid_t other, const MappedFile& mapping) {
          if (auto again = files.inspect(other, mapping); again && other == pid) {
            found = std::move(again);
          }
        },
        kLongNs, kLongNs);
    return found;
  }
  LibraryFiles files_of(const Procfs& procfs, TrustedOwners trusted = {}) {
    return LibraryFiles(procfs, std::move(trusted), [this](const std::string& text) { notes_.push_back(text); });
  }

  static constexpr uid_t kUser = 4242;
  fs::path root_;
  void* memory_ = MAP_FAILED;
  size_t bytes_ = 0;
  MappedFile mapping_;
  std::vector<std::string> notes_;
};

/// A number that no process has.
pid_t ended_process() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(0);
  }
  ::waitpid(pid, nullptr, 0);
  return pid;
}

TEST_F(LibraryFilesTest, OneOnAnotherHostIsReadByAChild) {
  const Procfs procfs = host("nfs4");
  LibraryFiles files = files_of(procfs);
  EXPECT_FALSE(files.inspect(::getpid(), mapping_));
  EXPECT_EQ(files.unread(), 1U);
  const auto found = found_in_time(files, ::getpid());
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->file->symbols.has_collectives);
  EXPECT_TRUE(found->opened->is_remote());
  EXPECT_EQ(files.unread(), 0U);
  EXPECT_TRUE(notes_.empty()) << notes_[0];
}

/// "python -c 'import torch'" ends while its files wait to be read; the same user's ranks map them next.
TEST_F(LibraryFilesTest, AProcessThatEndsHidesNoFileOfItsUsersOthers) {
  const pid_t ended = ended_process();
  const Procfs procfs = host("nfs4", {::getpid(), ended});
  LibraryFiles files = files_of(procfs);
  EXPECT_FALSE(files.inspect(ended, mapping_));
  EXPECT_TRUE(found_in_time(files, ::getpid())) << "it waited for the same answer";
  LibraryFiles others = files_of(procfs);
  EXPECT_FALSE(found_in_time(others, ended));
  EXPECT_TRUE(found_in_time(others, ::getpid())) << "it came after the answer";
  EXPECT_TRUE(notes_.empty()) << notes_[0];
}

TEST_F(LibraryFilesTest, OneThatWasCutAfterItWasMappedIsFoundAtItsAddressOfNow) {
  const Procfs procfs = host("ext4");
  LibraryFiles files = files_of(procfs, {.users = {::geteuid()}});
  ASSERT_EQ(::munmap(static_cast<char*>(memory_) + 4096, bytes_ - 4096), 0);
  const auto found = found_in_time(files, ::getpid());
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->file->symbols.has_collectives);
}

TEST_F(LibraryFilesTest, ProbesThatCanNotBeAttachedAreTriedAgainLaterAndNamedOnce) {
  const Procfs procfs = host("ext4");
  LibraryFiles files = files_of(procfs);
  const auto found = found_in_time(files, ::getpid());
  ASSERT_TRUE(found);
  EXPECT_TRUE(files.begin_attach(*found));
  files.set_refused(*found, "/lib/x\x1b", "an int3");
  EXPECT_FALSE(files.begin_attach(*found));
  files.set_refused(*found, "/lib/x\x1b", "an int3");
  EXPECT_EQ(files.left_out().at("library:not_probed"), 1U);
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(notes_[0].find('\x1b'), std::string::npos);
  golden::expect_text(notes_[0]);
}

TEST_F(LibraryFilesTest, AUsersLibrariesAreLimitedAndTheTrustedOnesAreNot) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root: a file of another user";
  }
  ASSERT_EQ(::chown(library().c_str(), kUser, kUser), 0);
  const Procfs procfs = host("ext4");
  for (const bool trusted : {false, true}) {
    LibraryFiles files = files_of(procfs, trusted ? TrustedOwners{.users = {kUser}} : TrustedOwners{});
    const auto found = found_in_time(files, ::getpid());
    ASSERT_TRUE(found);
    for (size_t i = 0; i < ProbeShares::kMost; ++i) {
      ASSERT_TRUE(files.may_be_probed(::getpid(), mapping_, *found)) << i;
      ASSERT_TRUE(files.begin_attach(*found));
    }
    EXPECT_EQ(files.may_be_probed(::getpid(), mapping_, *found), trusted);
    EXPECT_EQ(files.left_out().contains(users_loss("library:too_many", kUser)), !trusted);
  }
}

/// It would be read with all rights.
TEST_F(LibraryFilesTest, AStrangersLibraryInAUsualFolderIsNotRead) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root: a file of another user";
  }
  const Procfs procfs = host("ext4");
  EXPECT_TRUE(files_of(procfs).inspect_trusted_path(library()));
  ASSERT_EQ(::chmod(library().c_str(), 0777), 0);
  EXPECT_FALSE(files_of(procfs).inspect_trusted_path(library())) << "any user can write it";
  ASSERT_EQ(::chmod(library().c_str(), 0755), 0);
  ASSERT_EQ(::chown(library().c_str(), kUser, kUser), 0);
  EXPECT_FALSE(files_of(procfs).inspect_trusted_path(library()));
  EXPECT_TRUE(files_of(procfs, {.users = {kUser}}).inspect_trusted_path(library()));
  ASSERT_EQ(::chmod(library().c_str(), 0757), 0);
  for (const TrustedOwners& trusted : {TrustedOwners{.users = {kUser}}, TrustedOwners{.any_user = true}}) {
    EXPECT_FALSE(files_of(procfs, trusted).inspect_trusted_path(library())) << "any user can write it";
  }
}

/// A service account's library that others can write is no more the account's than a stranger's.
TEST_F(LibraryFilesTest, ATrustedOwnersLibraryThatOthersMayWriteIsNotProbed) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root: a file of another user";
  }
  const Procfs procfs = host("ext4");
  ASSERT_EQ(::chown(library().c_str(), 1200, 1200), 0);
  for (const bool probed : {true, false}) {
    const mode_t mode = probed ? 0755 : 0777;
    ASSERT_EQ(::chmod(library().c_str(), mode), 0);
    LibraryFiles files = files_of(procfs, {.users = {1200}});
    const auto found = found_in_time(files, ::getpid());
    ASSERT_TRUE(found);
    EXPECT_EQ(files.may_be_probed(::getpid(), mapping_, *found), probed) << mode;
    EXPECT_EQ(files.left_out().contains("library:not_trusted"), !probed) << mode;
  }
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_NE(notes_[0].find("--library"), std::string::npos) << notes_[0];
}

}  // namespace
}  // namespace stalltrace::capture
