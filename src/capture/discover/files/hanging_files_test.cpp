// SPDX-License-Identifier: Apache-2.0
// File systems of users that take requests and never answer: processes that open their files can't even be killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "capture/discover/files/library_reader.h"

namespace stalltrace::capture {
namespace {

namespace fs = std::filesystem;
using Outcome = LibraryReader::Outcome;

constexpr int64_t kOpenNs = 200 * kNsPerMs;
constexpr int64_t kParseNs = 400 * kNsPerMs;
constexpr int64_t kSecondsNs = 10 * kNsPerSecond;
constexpr uint64_t kFile = 2;  // its only file; the folder is FUSE_ROOT_ID
constexpr uint64_t kBytes = 4096;

/// A file system with one file, of zeros, which this program maps.
class UsersMount {
 public:
  explicit UsersMount(const fs::path& folder)
      : folder_(folder.string()), fuse_(::open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
    fs::create_directories(folder_);
    const std::string options =
        "fd=" + std::to_string(fuse_.get()) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
    mounted_ = fuse_ && ::mount("silent", folder_.c_str(), "fuse.silent", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
    if (!mounted_) {
      return;
    }
    serving_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
    const UniqueFd file(::open((folder_ + "/file").c_str(), O_RDONLY | O_CLOEXEC));
    memory_ = file ? ::mmap(nullptr, kBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0) : MAP_FAILED;
    for (const MappedFile& one : Procfs().executable_mappings(::getpid()).value_or(std::vector<MappedFile>())) {
      if (one.start == reinterpret_cast<uint64_t>(memory_)) {
        mapping_ = one;
      }
    }
  }
  UsersMount(const UsersMount&) = delete;
  UsersMount& operator=(const UsersMount&) = delete;
  ~UsersMount() {
    if (memory_ != MAP_FAILED) {
      ::munmap(memory_, kBytes);
    }
    if (mounted_) {
      ::umount2(folder_.c_str(), MNT_DETACH);
    }
    serving_.request_stop();
    if (serving_.joinable()) {
      serving_.join();
    }
  }  // the descriptor is closed last: what still waits gets an error then

  [[nodiscard]] bool works() const { return mapping_.inode != 0; }
  [[nodiscard]] const MappedFile& mapping() const { return mapping_; }
  void fall_silent() { silent_ = true; }
  /// Answers what is asked before a file is closed this many times more, and never again.
  void withhold_flushes_after(int flushes) {
    flushes_ = flushes;
    withholds_flushes_ = true;
  }

 private:
  static fuse_attr attributes(uint64_t node) {
    fuse_attr attributes{};
    attributes.ino = node;
    attributes.size = node == kFile ? kBytes : 0;
    attributes.mode = node == kFile ? S_IFREG | 0755 : S_IFDIR | 0755;
    attributes.nlink = 1;
    attributes.blksize = 4096;
    return attributes;
  }
  template <typename Body>
  void answer(uint64_t unique, const Body& body) const {
    std::array<char, sizeof(fuse_out_header) + sizeof body> bytes{};
    const fuse_out_header header{.len = sizeof bytes, .error = 0, .unique = unique};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &body, sizeof body);
    (void)!::write(fuse_.get(), bytes.data(), bytes.size());
  }
  void refuse(uint64_t unique, int error) const {
    const fuse_out_header header{.len = sizeof header, .error = -error, .unique = unique};
    (void)!::write(fuse_.get(), &header, sizeof header);
  }
  void answer_request(const fuse_in_header& request) {
    switch (request.opcode) {
      case FUSE_INIT: {
        fuse_init_out init{};
        init.major = FUSE_KERNEL_VERSION;
        init.minor = 31;
        init.max_readahead = init.max_write = 65536;
        return answer(request.unique, init);
      }
      case FUSE_LOOKUP: {
        fuse_entry_out entry{};
        entry.nodeid = kFile;
        entry.attr = attributes(kFile);
        return answer(request.unique, entry);
      }
      case FUSE_GETATTR: {
        fuse_attr_out attribute{};
        attribute.attr = attributes(request.nodeid);
        return answer(request.unique, attribute);
      }
      case FUSE_OPEN:
        return answer(request.unique, fuse_open_out{});
      case FUSE_READ:
        return answer(request.unique, std::array<char, kBytes>{});
      case FUSE_FLUSH:
        if (withholds_flushes_ && flushes_-- <= 0) {
          return;
        }
        return refuse(request.unique, 0);
      case FUSE_RELEASE:
        return refuse(request.unique, 0);
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
        return;
      default:
        refuse(request.unique, ENOSYS);
    }
  }
  void serve(const std::stop_token& stop) {
    std::array<char, 1 << 17> bytes{};
    while (!stop.stop_requested()) {
      pollfd wait{.fd = fuse_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, 20) <= 0) {
        continue;
      }
      const ssize_t got = ::read(fuse_.get(), bytes.data(), bytes.size());
      if (got < 0 && errno == ENODEV) {
        return;
      }
      fuse_in_header request{};
      if (got >= static_cast<ssize_t>(sizeof request) && !silent_) {  // else it was taken, and is never answered
        std::memcpy(&request, bytes.data(), sizeof request);
        answer_request(request);
      }
    }
  }

  std::string folder_;
  UniqueFd fuse_;
  bool mounted_ = false;
  std::atomic<bool> silent_ = false;
  std::atomic<int> flushes_ = 0;
  std::atomic<bool> withholds_flushes_ = false;
  std::jthread serving_;
  void* memory_ = MAP_FAILED;
  MappedFile mapping_;
};

class HangingFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      GTEST_SKIP() << "needs root: it mounts";
    }
    root_ = fs::path(testing::TempDir()) / ("hanging_files_" + std::to_string(::getpid()));
    fs::create_directories(root_ / std::to_string(::getpid()));
    for (size_t i = 0; i < LibraryReader::kMostHangingOfUser + 1; ++i) {
      mounts_.push_back(std::make_unique<UsersMount>(root_ / ("mount" + std::to_string(i))));
      if (!mounts_.back()->works()) {
        GTEST_SKIP() << "FUSE can't be mounted here";
      }
    }
  }
  void TearDown() override {
    mounts_.clear();
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  /// The outcome where this program is that user's.
  Outcome read(LibraryReader& reader, uid_t user, const UsersMount& mount) {
    std::ofstream(root_ / std::to_string(::getpid()) / "status")
        << "Uid:\t" << user << "\t" << user << "\t" << user << "\n";
    EXPECT_TRUE(reader.ask({.pid = ::getpid(), .user = user, .mapping = mount.mapping()}));
    const int64_t end_ns = monotonic_now_ns() + kSecondsNs;
    while (monotonic_now_ns() < end_ns) {
      const int64_t begun_ns = monotonic_now_ns();
      std::optional<Outcome> outcome;
      if (const auto answer = reader.take()) {
        outcome = answer->outcome;
        if (answer->opened) {
          EXPECT_NE(::fcntl(answer->opened->fd(), F_GETFL) & O_PATH, 0) << "to close it would ask the file system";
        }
      }
      EXPECT_LT(monotonic_now_ns() - begun_ns, kNsPerSecond) << "the tracer's thread waited";
      if (outcome) {
        return *outcome;
      }
      ::usleep(5000);
    }
    return Outcome::kFailed;
  }

  fs::path root_;
  std::vector<std::unique_ptr<UsersMount>> mounts_;
};

TEST_F(HangingFiles, OneUsersSilentMountsDoNotEndTheReadingOfOthersFiles) {
  constexpr uid_t kUser = 1001;
  constexpr uid_t kOther = 1002;
  const Procfs procfs(root_.string());
  Mounts mounts(procfs);
  LibraryReader reader(procfs, mounts, LibraryReader::FileSystems::kRemote, kOpenNs);
  const UsersMount& healthy = *mounts_.back();
  EXPECT_EQ(read(reader, kUser, healthy), Outcome::kRead);
  for (size_t i = 0; i < LibraryReader::kMostHangingOfUser; ++i) {
    mounts_[i]->fall_silent();
    EXPECT_EQ(read(reader, kUser, *mounts_[i]), Outcome::kSilent) << i;
  }
  ::usleep(1'200'000);  // those that can be killed are dead by then
  const int64_t begun_ns = monotonic_now_ns();
  EXPECT_EQ(read(reader, kUser, *mounts_[0]), Outcome::kSilent);
  EXPECT_LT(monotonic_now_ns() - begun_ns, kOpenNs) << "a process hangs there already: none is sent after it";
  EXPECT_EQ(read(reader, kUser, healthy), Outcome::kHeld);
  EXPECT_EQ(read(reader, kOther, healthy), Outcome::kRead);
  EXPECT_EQ(read(reader, kOther, *mounts_[0]), Outcome::kSilent);
  EXPECT_EQ(read(reader, kOther, healthy), Outcome::kRead);
}

/// The kernel asks a file system before it closes a file, and waits.
TEST_F(HangingFiles, OneThatLetsNoFileBeClosedIsItsUsersAlone) {
  constexpr uid_t kUser = 1001;
  constexpr uid_t kOther = 1002;
  const Procfs procfs(root_.string());
  Mounts mounts(procfs);
  const UsersMount& healthy = *mounts_.back();
  for (const int answered : {0, 1, 2}) {  // of three: the opener closes two descriptors, the parser one
    LibraryReader reader(procfs, mounts, LibraryReader::FileSystems::kRemote, kOpenNs, kParseNs);
    UsersMount& mount = *mounts_[static_cast<size_t>(answered)];
    ASSERT_EQ(read(reader, kUser, healthy), Outcome::kRead);
    mount.withhold_flushes_after(answered);
    const Outcome outcome = read(reader, kUser, mount);
    EXPECT_TRUE(outcome == Outcome::kSilent || outcome == Outcome::kSlow)
        << answered << ": " << LibraryReader::describe(outcome);
    EXPECT_EQ(read(reader, kOther, healthy), Outcome::kRead) << answered;
    ::usleep(1'200'000);  // those that can be killed are dead by then
    EXPECT_EQ(read(reader, kUser, mount), Outcome::kSilent) << answered << ": a process hangs there already";
    EXPECT_EQ(read(reader, kOther, healthy), Outcome::kRead) << answered << ": it was charged with the other's";
  }
}

TEST_F(HangingFiles, AfterItsFileWasReadNothingIsAskedOfAFileSystem) {
  constexpr uid_t kUser = 1001;
  const Procfs procfs(root_.string());
  Mounts mounts(procfs);
  LibraryReader reader(procfs, mounts, LibraryReader::FileSystems::kRemote, kOpenNs, kParseNs);
  UsersMount& mount = *mounts_.front();
  mount.withhold_flushes_after(3);
  EXPECT_EQ(read(reader, kUser, mount), Outcome::kRead);
  EXPECT_EQ(read(reader, kUser, *mounts_.back()), Outcome::kRead) << "the children are free";
}

/// A dead server's mount that all use: no user alone has too many processes hang.
TEST_F(HangingFiles, OneFileSystemHangsTheProcessesOfSoManyUsers) {
  constexpr uid_t kFirst = 1001;
  const Procfs procfs(root_.string());
  Mounts mounts(procfs);
  LibraryReader reader(procfs, mounts, LibraryReader::FileSystems::kRemote, kOpenNs, kParseNs);
  UsersMount& shared = *mounts_.front();
  shared.fall_silent();
  uid_t user = kFirst;
  for (size_t i = 0; i < LibraryReader::kMostHangingOfFileSystem; ++i) {
    EXPECT_EQ(read(reader, user++, shared), Outcome::kSilent) << i;
  }
  ::usleep(1'200'000);
  EXPECT_EQ(read(reader, user, shared), Outcome::kHeld);
  EXPECT_EQ(read(reader, kFirst, shared), Outcome::kSilent);
  EXPECT_EQ(read(reader, user, *mounts_.back()), Outcome::kRead);
}

}  // namespace
}  // namespace stalltrace::capture
